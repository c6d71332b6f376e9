"""The wafer's timing model against everything published that it can be held to.

Prints one line for each bar, `name value bar ok|MISSED`, and exits 1 if one is missed. With
`--details` it adds, as comments, every row of the error tables and figures that are not bars. All
rates and times are simulated; measured ones come from the sources named in docs/wafer-timing.md.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from appliance.wafer.hardware import CS2, CS3, Machine
from appliance.wafer.planner.phases import phase_times
from appliance.wafer.planner.planner import estimate
from appliance.wafer.planner.transformer import Transformer
from appliance.wafer.planner.transformer_program import transformer_program
from appliance.wafer.planner.trust import WORST_ERRORS
from appliance.wafer.timing.calibration import DEFAULT_CALIBRATION
from appliance.wafer.timing.layer_timing import step_timing
from appliance.wafer.timing.operations import (
    Kind,
    LayerTraffic,
    Operation,
    OperationTable,
)
from appliance.wafer.timing.pipelined import pipelined_timing
from appliance.wafer.timing.sample_memory import largest_micro_batch
from appliance.wafer.timing.step_program import StepProgram
from benchmarks.wafer_model import mesh_products, reductions, stencil
from benchmarks.wafer_model.fitting import left_out_errors, relative_error
from benchmarks.wafer_model.logs import BERT_LARGE_128, EARLIER_LOGS, LOGS

REDUCE_POINTS = {
    2: 10055,
    4: 9421,
    8: 9117,
    16: 8989,
    32: 8973,
    64: 9061,
    128: 9297,
    256: 9800,
    512: 7218,
}
"""Group size and cycles of a reduction over 512 PEs of 4,096 words, official simulator."""

GPT3 = {
    "1.3B": (24, 2048, 16, 253),
    "2.7B": (32, 2560, 32, 198),
    "13B": (40, 5120, 40, 99),
    "20B": (44, 6144, 64, 77),
    "39B": (48, 8192, 64, 55),
    "65B": (80, 8192, 64, 55),
    "175B": (96, 12288, 96, 35),
}
"""Layers, hidden size, heads and the published micro-batch for one CS-2."""

PREFILL = {
    "LLaMA3-8B": (mesh_products.LLAMA3_8B, (20320.6, 25037.2, 27686.5)),
    "CodeLLaMA-34B": (mesh_products.CODELLAMA_34B, (5471.4, 7540.1, 8526.0)),
    "QWen2-72B": (mesh_products.QWEN2_72B, (2785.2, 3775.5, 4421.6)),
}
DECODE = {
    "LLaMA3-8B": (2699.9, 2501.5, 2243.3),
    "CodeLLaMA-34B": (1450.8, 1407.7, 1359.2),
    "QWen2-72B": (839.7, 824.3, 787.1),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of the report.

    Attributes:
        name: Which figure.
        value: What we get.
        limit: What it may be at most.
        unit: `%` for an error or loss in percent, `s` for wall seconds.
    """

    name: str
    value: float
    limit: float
    unit: str = "%"

    def __str__(self) -> str:
        verdict = "ok" if abs(self.value) <= self.limit else "MISSED"
        return (
            f"{self.name:<62} {self.value:+9.3f}{self.unit} {self.limit:6.2f}{self.unit} {verdict}"
        )


def main() -> int:
    """Print every bar; return 1 if one is missed."""
    missed = 0
    sections = (
        collective_bars,
        throughput_bars,
        pipelined_bars,
        memory_bars,
        scaling_bars,
        phase_bars,
    )
    for section in (*sections, stencil_bars, inference_bars, speed_bars):
        for bar in section():
            print(bar)
            missed += abs(bar.value) > bar.limit
    if "--details" in sys.argv[1:]:
        for line in details():
            print("#", line)
    return 1 if missed else 0


def collective_bars() -> Iterator[Bar]:
    """Reductions of the official cycle-accurate simulator."""
    for size, cycles in REDUCE_POINTS.items():
        ours = reductions.two_phase_reduce(512, 4096, group_size=size)
        yield Bar(f"reduce.P512.B4096.S{size}", 100 * (ours / cycles - 1), 2.0)


def throughput_bars() -> Iterator[Bar]:
    """Each logged model, with the calibration fitted to the logs of all others."""
    errors = left_out_errors()
    for row in LOGS:
        least, greatest = WORST_ERRORS[row.machine.wafer]
        outside = max(least - errors[row.name], errors[row.name] - greatest, 0.0)
        name = row.name.replace(" ", "_")
        yield Bar(f"throughput.outside-its-interval.{name}", 100 * outside, 0.5)
    yield Bar("throughput.left-out.median", 100 * median(map(abs, errors.values())), 15.0)
    for row in LOGS:
        if row.model.name == "Llama2-7B":
            error = 100 * relative_error(row, DEFAULT_CALIBRATION)
            yield Bar(f"throughput.fitted.{row.name.replace(' ', '_')}", error, 15.0)


def pipelined_bars() -> Iterator[Bar]:
    """BERT-large, pipelined, two releases; no number is fitted to them."""
    ours = pipelined_timing(transformer_program(BERT_LARGE_128), machine=CS2, batch_size=1024)
    for release, rate in (("R1.7", 7023.0), ("R1.8", 6493.0)):
        error = 100 * (ours.samples_per_second / rate - 1)
        yield Bar(f"pipelined.BERT-large_MSL128.{release}", error, 20.0)


def gpt3(size: str) -> Transformer:
    """Return a model of the micro-batch table."""
    layers, hidden, heads, _ = GPT3[size]
    return Transformer(
        name=f"GPT-3 {size}",
        layers=layers,
        hidden=hidden,
        heads=heads,
        ffn=4 * hidden,
        vocab=50257,
        sequence=2048,
    )


ONE_TRILLION = Transformer(
    name="GPT 1T",
    layers=128,
    hidden=25600,
    heads=200,
    ffn=102400,
    vocab=50257,
    sequence=2048,
)


def memory_bars() -> Iterator[Bar]:
    """The published micro-batch table."""
    for size, (*_, published) in GPT3.items():
        ours = largest_micro_batch(transformer_program(gpt3(size)), CS2)
        yield Bar(f"micro-batch.{size}", 100 * (ours / published - 1), 25.0)


def scaling_bars() -> Iterator[Bar]:
    """Weak scaling of Cerebras-GPT sizes, and of one trillion parameters."""
    for size in ("1.3B", "13B"):
        points = estimate(gpt3(size), machine=CS2, num_systems=16).weak_scaling
        yield Bar(f"weak-scaling.loss.{size}.16xCS-2", 100 * (1 - points[-1].speedup / 16), 9.0)
    points = estimate(ONE_TRILLION, machine=CS3, num_systems=16).weak_scaling
    yield Bar("scaling.1T.16xCS-3.against-15.3x", 100 * (points[-1].speedup / 15.3 - 1), 5.0)


def phase_bars() -> Iterator[Bar]:
    """Phases of the three logged jobs, and logged checkpoints."""
    jobs = (
        ("BERT-large.CS-2", 0.34e9, CS2, (50, 835, 29, 32, 121, 17, 260)),
        ("LLaMA-7B.CS-2", 6.7e9, CS2, (50, 2036, 47, 87, 85, 18, 288)),
        ("Llama2-7B.CS-3", 6.7e9, CS3, (50, None, 35, 13, 232, 2, 334)),
    )
    names = ("ingress", "compile", "load", "send_weights", "programming", "begin", "until_running")
    for job, parameters, machine, logged in jobs:
        ours = phase_times(parameters, machine)
        for name, seconds in zip(names, logged, strict=True):
            if seconds is not None:
                error = 100 * (getattr(ours, name) / seconds - 1)
                yield Bar(f"phase.{job}.{name}", error, 25.0)
    checkpoints = (("Llama2-7B", 6.74e9, 464), ("GPT-J", 6.05e9, 497), ("DiT-2B", 2.1e9, 181))
    for name, parameters, seconds in (*checkpoints, ("BERT", 0.34e9, 35), ("ESM-35M", 34e6, 9)):
        ours_seconds = phase_times(parameters, CS3).checkpoint
        yield Bar(f"phase.checkpoint.{name}", 100 * (ours_seconds / seconds - 1), 25.0)


def stencil_bars() -> Iterator[Bar]:
    """The 25-point stencil, fitted on its shallowest and deepest point."""
    points = stencil.PUBLISHED_CYCLES
    costs = stencil.fit_costs(stencil.SEISMIC_25_POINT, (points[0], points[-1]))
    for depth, cycles in points:
        ours = stencil.step_cycles(stencil.SEISMIC_25_POINT, depth, costs)
        yield Bar(f"stencil.25-point.nz{depth}", 100 * (ours / cycles - 1), 5.0)


def _mesh_machine() -> Machine:
    return replace(CS2, clock_hertz=mesh_products.WAFERLLM_CLOCK_HERTZ)


def inference_bars() -> Iterator[Bar]:
    """WaferLLM's products and rates."""
    machine = _mesh_machine()
    cycles = mesh_products.gemv_cycles(16384, 16384, side=750, machine=machine)
    yield Bar("waferllm.gemv.16K", 100 * (machine.seconds(cycles) / 1.2e-6 - 1), 15.0)
    for name, (model, rates) in PREFILL.items():
        for side, rate in zip((480, 600, 720), rates, strict=True):
            ours = mesh_products.prefill_tokens_per_second(model, 4096, side=side, machine=machine)
            yield Bar(f"waferllm.prefill.{name}.{side}x{side}", 100 * (ours / rate - 1), 25.0)
        for side, rate in zip((420, 540, 660), DECODE[name], strict=True):
            ours = mesh_products.decode_tokens_per_second(model, 4096, side=side, machine=machine)
            yield Bar(f"waferllm.decode.{name}.{side}x{side}", 100 * (ours / rate - 1), 25.0)


def speed_bars() -> Iterator[Bar]:
    """The model's own speed, in wall seconds of this computer."""
    operations = [
        Operation(
            name="MatMul",
            kind=list(Kind)[index % len(Kind)],
            layer_step=index // 20,
            tokens=2048.0,
            inner=4096,
            outer=4096,
            sequence=2048,
        )
        for index in range(10_000)
    ]
    layers = tuple(
        LayerTraffic(
            name=f"{index}",
            module=f"{index}",
            is_backward=False,
            weight_elements=1e7,
            gradient_elements=0.0,
        )
        for index in range(500)
    )
    begin = time.perf_counter()
    program = StepProgram(
        name="10,000 operations",
        table=OperationTable.from_operations(operations),
        layers=layers,
        num_parameters=1e9,
        working_bytes_per_sample=1e6,
        largest=("x", 1e6),
        boundary_bytes_per_sample=1e6,
        tokens_per_sample=2048,
    )
    step_timing(program, machine=CS2, batch_size=64)
    yield Bar("speed.10000-operations", time.perf_counter() - begin, 0.2, "s")
    begin = time.perf_counter()
    estimate(ONE_TRILLION, machine=CS3, num_systems=192)
    yield Bar("speed.estimate.1T.192xCS-3", time.perf_counter() - begin, 5.0, "s")


def details() -> Iterator[str]:
    """Figures that are reported but not bars."""
    yield f"calibration: {DEFAULT_CALIBRATION}"
    errors = left_out_errors()
    for row in LOGS:
        fitted = 100 * relative_error(row, DEFAULT_CALIBRATION)
        yield f"{row.name}: {100 * errors[row.name]:+.1f} % left out, {fitted:+.1f} % fitted"
    for row in EARLIER_LOGS:
        yield f"older: {row.name} {100 * relative_error(row, DEFAULT_CALIBRATION):+.1f} %"
    for size in GPT3:
        result = estimate(gpt3(size), machine=CS2, num_systems=16)
        rate = result.tokens_per_second / 16
        step = result.step
        yield f"GPT-3 {size}: {rate:,.0f} tok/s per CS-2, utilisation {step.utilization:.1%}"
    for name, num_pes, words, cycles in (("P512 B64 S28", 512, 64, 926),):
        ours = reductions.two_phase_reduce(num_pes, words, group_size=28)
        yield f"reduce {name}: {100 * (ours / cycles - 1):+.1f} % (not a bar)"


if __name__ == "__main__":
    sys.exit(main())
