"""Training with masked weights: by their non-zeros, beside whole tensors.

    python -m benchmarks.sparsity [--rounds 5] [--small] [--only rigl]

Both parties run the client's program of the same GPT with the same weights and masks, static ones
or those of an algorithm that changes them; one of them with a plan whose list of sparse weights is
empty. Prints a line for each figure, `name value bar ok|MISSED`, and exits 1 if a bar is missed.
Bytes are those that SwarmX copied into the broadcast ring and was sent to be added up, and that
MemoryX holds as state; times are ratios of rounds in which both take turns.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from appliance.compiler.pipeline import compile_program
from appliance.core.plans.plan import Plan, Precision
from benchmarks.engine_parties.comparison import Comparison
from benchmarks.engine_parties.engine_party import EngineParty
from benchmarks.programs.capture import initial_state, plan_batch, program_text
from benchmarks.programs.gpt import Gpt, GptShape, batches

_SHAPE = GptShape(width=1024, depth=8, heads=16, batch_size=4, seq_len=128)
_SMALL = GptShape(width=128, depth=2, heads=2, batch_size=4, seq_len=32)
_NUM_BATCHES, _NUM_STEPS = 8, 3
_MASK, _ALGORITHM = "_mask", "state.sparsity."
_COPIED, _STATE = "wsc_swarmx_broadcast_copied_bytes", "wsc_memoryx_state_bytes"
_REDUCED = "wsc_swarmx_reduced_bytes"
_TIME = "step time"
_BYTES = (_COPIED, _REDUCED, _STATE)
_CHANGING = {_COPIED: 0.16, _REDUCED: 0.2, _STATE: 1.05, _TIME: 1.0}
_BARS = {
    ("static", 0.9): {_COPIED: 0.16, _STATE: 0.25, _TIME: 1.0},
    ("static", 0.95): {_COPIED: 0.09, _STATE: 0.15, _TIME: 0.85},
    ("gmp", 0.9): _CHANGING,
    ("rigl", 0.9): _CHANGING,
}
"""The most of each figure, as a part of that of whole tensors, by algorithm and sparsity."""


def masked_state(plan: Plan, model: Gpt, sparsity: float) -> dict[str, NDArray[np.generic]]:
    """Return the state that a masked program starts from, by resource name.

    Args:
        plan: The compiled program.
        model: Its weights before masking.
        sparsity: Part of each masked weight that is hidden; which, a seeded generator draws.
    """
    masks = {t.resource_name: t for t in plan.state if t.resource_name.endswith(_MASK)}
    steps = {t.resource_name: t for t in plan.state if t.resource_name.startswith(_ALGORITHM)}
    others = tuple(t for t in plan.state if t.resource_name not in masks.keys() | steps.keys())
    state = initial_state(replace(plan, state=others), model)
    for name, tensor in steps.items():
        state[name] = np.zeros(tensor.type.shape, tensor.type.dtype.container)
    resources = {tensor.value: tensor.resource_name for tensor in plan.state}
    # A tied weight has the mask of its other name.
    names = {sparse.mask: resources[sparse.weight] for sparse in plan.sparse}
    generator = np.random.default_rng(0)
    for name, tensor in masks.items():
        size = tensor.type.num_elements
        mask = np.zeros(size, np.bool_)
        mask[generator.permutation(size)[: round(size * (1 - sparsity))]] = True
        state[name] = mask.reshape(tensor.type.shape)
        weight = names.get(tensor.value, name.removesuffix(_MASK))
        state[weight] = state[weight] * state[name]
    return state


def compare(
    shape: GptShape, algorithm: str, sparsity: float, *, num_rounds: int, directory: Path
) -> Mapping[str, float]:
    """Return each figure of sparse weights as a part of that of whole tensors."""
    plan = compile_program(
        program_text(shape, sparsity=sparsity, algorithm=algorithm),
        batch_size=shape.batch_size,
        precision=Precision.F32,
    )
    torch.manual_seed(0)
    state = masked_state(plan, Gpt(shape), sparsity)
    values = {tensor.input_name: tensor.value for tensor in plan.inputs}
    fed = [
        {values[name]: value for name, value in plan_batch(plan, batch).items()}
        for batch in batches(shape, _NUM_BATCHES)
    ]
    plans = {"sparse": plan, "whole": replace(plan, sparse=())}
    parties = [
        EngineParty(
            name,
            shape=shape,
            plan=each,
            state=state,
            batches=fed,
            num_systems=2,
            threads=1,
            directory=directory / name,
        )
        for name, each in plans.items()
    ]
    comparison = Comparison(shape.batch_size * shape.seq_len)
    found: dict[str, dict[str, float]] = {}

    def note() -> None:
        found.update({party.name: _bytes(party) for party in parties})

    comparison.add_rounds(parties, num_rounds=num_rounds, num_steps=_NUM_STEPS, before_end=note)
    for row in comparison.rows("sparse"):
        print(row, flush=True)
    ratios = {name: found["sparse"][name] / found["whole"][name] for name in _BYTES}
    return {**ratios, _TIME: 1 / comparison.ratio("sparse", "whole")}


def _bytes(party: EngineParty) -> dict[str, float]:
    readings = party.readings()
    (swarmx,) = (found for pod, found in readings.items() if "-broadcastreduce-" in pod)
    (memoryx,) = (found for pod, found in readings.items() if "-weight-" in pod)
    both = {**swarmx, **memoryx}
    return {name: both[name] for name in _BYTES}


def lines(figures: Mapping[str, float], algorithm: str, sparsity: float) -> Iterator[str]:
    """Yield a line for each figure, with its bar."""
    title = f"sparsity-{sparsity:g}" if algorithm == "static" else f"{algorithm}-{sparsity:g}"
    for name, most in _BARS[algorithm, sparsity].items():
        value = figures[name]
        verdict = "ok" if value <= most else "MISSED"
        yield f"{title}.{name.replace(' ', '_')} {value:.3f} <={most:.2f} {verdict}"


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of turns; default: 5")
    parser.add_argument("--small", action="store_true", help="a size that shows that it works")
    algorithms = tuple(dict.fromkeys(algorithm for algorithm, _ in _BARS))
    parser.add_argument("--only", choices=algorithms, help="algorithm; default: all of them")
    options = parser.parse_args()
    shape = _SMALL if options.small else _SHAPE
    found: list[str] = []
    for algorithm, sparsity in _BARS:
        if options.only not in (None, algorithm):
            continue
        with tempfile.TemporaryDirectory(prefix="wsc-bench-") as folder:
            figures = compare(
                shape, algorithm, sparsity, num_rounds=options.rounds, directory=Path(folder)
            )
        found += lines(figures, algorithm, sparsity)
    print("\n".join(("", *found)))
    return int(any(line.endswith("MISSED") for line in found))


if __name__ == "__main__":
    sys.exit(main())
