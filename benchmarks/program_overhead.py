"""What a `Program` costs per operation beyond the kernels themselves.

    python benchmarks/program_overhead.py [--ops N] [--repeats N]

The same chain of operations on tiny tensors runs as a `Program` and as straight-line Python that
calls the kernels' own torch functions with everything in local variables. The difference is what
the engine adds per operation.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from appliance.core.ir.graph import Attribute, Node
from appliance.core.ir.tensors import Constant, DType, TensorType
from appliance.numerics.programs.program import Program

MATRIX = TensorType((8, 8), DType.F32)
HALF = Constant(MATRIX, np.float32(0.5).tobytes())


def chain(num_ops: int) -> tuple[list[Node], int]:
    """Return nodes: a constant, then rounds of product, matrix product, reshape and sum."""
    nodes = [_node("Const", (), "half", value=HALF)]
    value = "x"
    for index in range(num_ops // 4):
        a, b, c, d = (f"{letter}{index}" for letter in "abcd")
        nodes.append(_node("Mul", (value, "half"), a))
        nodes.append(_node("MatMul", (a, "w"), b, transpose_a=False, transpose_b=False))
        nodes.append(_node("Reshape", (b,), c))
        nodes.append(_node("Add", (c, a), d))
        value = d
    return nodes, 4 * (num_ops // 4)


def _node(op: str, operands: tuple[str, ...], result: str, **attributes: Attribute) -> Node:
    return Node(op=op, operands=operands, results=(result,), types=(MATRIX,), attributes=attributes)


def straight(x: torch.Tensor, w: torch.Tensor, num_ops: int) -> torch.Tensor:
    """Run the same operations without a program."""
    half = torch.tensor(0.5).expand(8, 8)
    for _ in range(num_ops // 4):
        a = torch.mul(x, half)
        b = torch.mm(a, w)
        c = b.reshape((8, 8))
        x = torch.add(c, a)
    return x


def microseconds(action: Callable[[], object], num_ops: int) -> float:
    """Return the CPU time of one call per operation; other load on the machine does not count."""
    begin = time.thread_time()
    action()
    return (time.thread_time() - begin) / num_ops * 1e6


def main() -> None:
    """Print one line per measured quantity."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=41)
    options = parser.parse_args()
    torch.set_num_threads(1)
    nodes, num_ops = chain(options.ops)
    last = nodes[-1].results[0]
    begin = time.thread_time()
    program = Program(nodes, types={"x": MATRIX, "w": MATRIX}, live_out={last})
    build = (time.thread_time() - begin) / num_ops * 1e6
    x, w = torch.eye(8), torch.eye(8) * 0.5
    pairs = []
    with torch.no_grad():
        for _ in range(options.repeats):
            ours = microseconds(lambda: program.run({"x": x, "w": w}, step=0), num_ops)
            plain = microseconds(lambda: straight(x, w, num_ops), num_ops)
            pairs.append((ours, plain))
    ours, plain = (statistics.median(column) for column in zip(*pairs, strict=True))
    overhead = statistics.median(a - b for a, b in pairs)
    print(f"program_build_us_per_op     {build:8.3f}")
    print(f"program_run_us_per_op       {ours:8.3f}")
    print(f"straight_line_us_per_op     {plain:8.3f}")
    print(f"program_overhead_us_per_op  {overhead:8.3f}   (median of {options.repeats} pairs)")


if __name__ == "__main__":
    main()
