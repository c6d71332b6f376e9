"""Products with sparse weights against the dense ones, in one process.

    python -m benchmarks.sparse_kernels [--tokens 512] [--threads 1] [--rounds 15]

For each shape of a weight and each density: medians of paired ratios of time (dense over sparse:
above 1 the sparse one is faster) of the product, of the input's gradient with what it takes to turn
the weight around, and of the weight's gradient at the pattern. Bars hold the shape of d=1024.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import torch

from appliance.numerics.sparse.matrices import Pattern, SparseMatrix, sparse_matrix
from appliance.numerics.sparse.sparse_products import product, sampled_product

SHAPES = ((512, 512), (1024, 1024), (4096, 1024), (1024, 4096))
"""Rows and columns of weights: out and in features."""
DENSITIES = (0.2, 0.1, 0.05, 0.02)
BARS = {0.1: (1.8, 1.8, 1.4), 0.05: (3.0, 3.0, 2.0)}
"""Least ratios of the three at d=1024, by density."""
NAMES = ("product", "input_gradient", "weight_gradient")

Pair = tuple[Callable[[], object], Callable[[], object]]


def pairs(shape: tuple[int, int], density: float, tokens: int) -> Iterator[Pair]:
    """Yield the dense and the sparse form of each of the three."""
    generator = torch.Generator().manual_seed(0)
    rows, columns = shape
    kept = torch.rand(shape, generator=generator) < density
    weight = torch.randn(shape, generator=generator) * kept
    x = torch.randn(tokens, columns, generator=generator)
    dy = torch.randn(tokens, rows, generator=generator)
    matrix = sparse_matrix(weight)
    y, dx, dw = torch.empty(tokens, rows), torch.empty(tokens, columns), torch.empty(shape)
    values = torch.empty_like(matrix.values)
    yield (
        lambda: torch.mm(x, weight.T, out=y),
        lambda: product(x, matrix, out=y),
    )
    yield (
        lambda: torch.mm(dy, weight, out=dx),
        lambda: product(dy, _turned(matrix), out=dx),
    )
    yield (
        lambda: torch.mm(dy.T, x, out=dw),
        lambda: sampled_product(dy, x, matrix.pattern, out=values),
    )


def _turned(matrix: SparseMatrix) -> SparseMatrix:
    """Return the transposed matrix of a pattern that nobody has turned around before."""
    old = matrix.pattern
    pattern = Pattern(
        num_rows=old.num_rows,
        num_columns=old.num_columns,
        offsets=old.offsets,
        columns=old.columns,
    )
    return SparseMatrix(pattern=pattern, values=matrix.values).transposed()


def ratio(pair: Pair, rounds: int) -> tuple[float, float]:
    """Return the median ratio of the first's time and the second's, and the second's in ms.

    On one thread it is CPU time, which other load on the machine does not count towards.
    """
    now = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    seconds: list[tuple[float, float]] = []
    for _ in range(rounds + 2):
        began = now()
        pair[0]()
        between = now()
        pair[1]()
        seconds.append((between - began, now() - between))
    kept = seconds[2:]
    return (
        statistics.median(dense / sparse for dense, sparse in kept),
        statistics.median(sparse for _, sparse in kept) * 1e3,
    )


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"# {options.tokens} tokens, {options.threads} threads; dense over sparse (ms sparse)")
    missed = 0
    for shape in SHAPES:
        for density in DENSITIES:
            found = [ratio(pair, options.rounds) for pair in pairs(shape, density, options.tokens)]
            cells = "  ".join(f"{value:6.2f} ({ms:6.2f})" for value, ms in found)
            print(f"# {shape[0]:5d} x {shape[1]:<5d} {density:5.0%}  {cells}")
            if shape == (1024, 1024) and density in BARS:
                for name, (value, _), least in zip(NAMES, found, BARS[density], strict=True):
                    is_met = value >= least
                    missed += not is_met
                    verdict = "ok" if is_met else "MISSED"
                    print(f"sparse_{name}_{density:.0%} {value:.2f} >={least} {verdict}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
