"""A mixture of experts with few experts for each token, against the same computing all of them.

    python -m benchmarks.experts [--width 512 --depth 2 --experts 8 --chosen 2 ...] [--rounds N]

Both programs are the real client's; each step's wafer and update part run in one process and on one
thread, as pods run them, in turn on the same batches. Printed is the median of paired ratios of CPU
time, chosen experts over all.
"""

import argparse
import statistics
import sys

import numpy as np
import torch

from appliance.compiler.pipeline import compile_program
from appliance.core.plans.plan import Plan, Precision
from benchmarks.kernels import Planned
from benchmarks.programs.capture import FIRST_POWERS, traced_text

VOCABULARY = 512
"""Of `trace_experts`, which this environment cannot import."""
_MOST = 0.5
"""Of the time of computing all experts."""


def plan_of(options: argparse.Namespace, chosen: int) -> Plan:
    """Return the plan of a mixture of which each token takes so many experts."""
    sizes = {
        "width": options.width,
        "depth": options.depth,
        "experts": options.experts,
        "chosen": chosen,
        "batch-size": options.batch_size,
        "seq-len": options.seq_len,
    }
    text = traced_text("trace_experts.py", sizes)
    return compile_program(text, batch_size=options.batch_size, precision=Precision.F32)


def first_state(plan: Plan) -> dict[str, np.ndarray]:
    """Return small random weights and a fresh AdamW, by resource name."""
    generator = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}
    for tensor in plan.state:
        name, shape = tensor.resource_name, tensor.type.shape
        if name.startswith("state.model."):
            value = generator.normal(scale=0.02, size=shape)
        else:
            value = np.full(shape, FIRST_POWERS.get(name.rpartition(".")[2], 0.0))
        found[name] = value.astype(tensor.type.dtype.container)
    return found


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--chosen", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--seq-len", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    plans = [plan_of(options, chosen) for chosen in (options.chosen, options.experts)]
    few, every = (Planned(plan, first_state(plan)) for plan in plans)
    generator = torch.Generator().manual_seed(0)
    shape = (options.batch_size, options.seq_len)
    seconds = []
    for _ in range(options.rounds + 2):
        drawn = torch.randint(VOCABULARY, (2, *shape), generator=generator, dtype=torch.int32)
        batch = {"input_ids": drawn[0], "labels": drawn[1]}
        seconds.append((sum(few.step(batch)), sum(every.step(batch))))
    kept = seconds[2:]
    ours, all_of_them = (statistics.median(each) * 1e3 for each in zip(*kept, strict=True))
    print(f"# step with {options.chosen} of {options.experts} experts {ours:.1f} ms")
    print(f"# step with all of them {all_of_them:.1f} ms")
    value = statistics.median(one / other for one, other in kept)
    is_met = value <= _MOST
    name = f"experts_{options.chosen}_of_{options.experts}_to_all"
    print(f"{name} {value:.3f} <={_MOST} {'ok' if is_met else 'MISSED'}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
