"""Training throughput of the same model and data, ours beside everyone else, in one run.

    python -m benchmarks.engine [--quick | --small] [--shape NAME ...] [--group NAME ...]
    python -m benchmarks.engine --profile [--shape NAME ...] [--systems N] [--threads N]

Prints a table for each model shape and one line for each bar, `name value bar ok|MISSED`; exits 1
if a bar is missed or could not be measured, and if a party could not run or computes another loss
than the others. `--small` has everybody train a few steps of a tiny model: its figures mean
nothing. With `--profile` it shows instead, as Markdown, where every millisecond of a step goes in
each of our pods.

Everyone trains the same model on the same batches with AdamW; parties stay resident and take turns
(benchmarks/engine_parties/comparison.py). What is measured of ours is in
benchmarks/engine_parties/engine_party.py.
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch

from appliance.compiler.pipeline import compile_program
from appliance.coordinator.run.kernel_selection import KernelTable
from appliance.core.plans.plan import Plan, Precision
from appliance.core.pods.pod_options import Device
from appliance.management.options.settings_by_group import RunOptions
from benchmarks.engine_parties.client_party import ClientParty
from benchmarks.engine_parties.comparison import Comparison
from benchmarks.engine_parties.engine_party import EngineParty
from benchmarks.engine_parties.environment import multiplies_bfloat16
from benchmarks.engine_parties.party import Party
from benchmarks.engine_parties.step_profile import ProfiledParty, overhead, profile, rows
from benchmarks.engine_parties.torch_party import TorchParty
from benchmarks.programs.capture import initial_state, plan_batch, program_text
from benchmarks.programs.cnn import CnnShape
from benchmarks.programs.encoder import EncoderShape
from benchmarks.programs.gpt import GptShape
from benchmarks.programs.models import Shape, model_name, model_of

SHAPES: dict[str, Shape] = {
    "d512": GptShape(width=512, depth=8, heads=8, batch_size=4, seq_len=128),
    "d768": GptShape(width=768, depth=12, heads=12, batch_size=4, seq_len=128),
    "d1024": GptShape(width=1024, depth=12, heads=16, batch_size=4, seq_len=512),
    "d512-128": GptShape(width=512, depth=8, heads=8, batch_size=2, seq_len=64),
    "d768-128": GptShape(width=768, depth=12, heads=12, batch_size=2, seq_len=64),
    "encoder": EncoderShape(width=512, depth=8, heads=8, batch_size=4, seq_len=128),
    "cnn": CnnShape(width=64, stages=3, depth=2, batch_size=16, image_size=32),
}
"""The third has 2,048 tokens a step. The two after it have 128, in two samples, since two systems
share the batch."""

SMALL_SHAPES: dict[str, Shape] = {
    name: CnnShape(width=32, stages=2, depth=1, batch_size=4, image_size=8)
    if isinstance(shape, CnnShape)
    else replace(shape, width=64, depth=2, heads=2, seq_len=16)
    for name, shape in SHAPES.items()
}
"""For a trial."""

NUM_BATCHES = 8
_MOST_OVERHEAD = 0.05
"""Part of a system's time that is neither an operation nor waiting."""

Ours = TypeVar("Ours", bound=EngineParty)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One demand.

    Attributes:
        name: Which figure.
        value: What was measured; NaN if it could not be.
        least: What it must reach.
    """

    name: str
    value: float
    least: float

    @property
    def is_met(self) -> bool:
        """Whether the demand is met."""
        return self.value >= self.least

    def __str__(self) -> str:
        value = "not-measured" if math.isnan(self.value) else f"{self.value:.3f}"
        return f"{self.name} {value} {self.least:.2f} {'ok' if self.is_met else 'MISSED'}"


class Table:
    """The parties of one model shape.

    Args:
        name: Of the shape.
        shape: What is trained.
        directory: Where logs and sockets go.
        kernels: What was measured of kernels.
    """

    def __init__(self, name: str, shape: Shape, directory: Path, kernels: KernelTable) -> None:
        self.name, self.shape, self._directory = name, shape, directory
        self._kernels = kernels
        self.comparison = Comparison(shape.units_a_step, model_of(shape).unit)
        self._text = program_text(shape)
        self._plan = self._compiled(Precision.F32)
        torch.manual_seed(0)
        self._state = initial_state(self._plan, model_of(shape).module(shape))
        values = {tensor.input_name: tensor.value for tensor in self._plan.inputs}
        self._batches = [
            {values[name]: value for name, value in plan_batch(self._plan, batch).items()}
            for batch in model_of(shape).batches(shape, NUM_BATCHES)
        ]

    def _compiled(self, precision: Precision) -> Plan:
        return compile_program(self._text, batch_size=self.shape.batch_size, precision=precision)

    def torch(self, name: str, kind: str, *, num_ranks: int, threads: int) -> Party:
        """Return a baseline."""
        return TorchParty(
            name,
            kind=kind,
            shape=self.shape,
            num_ranks=num_ranks,
            threads=threads,
            directory=self._directory,
        )

    def ours(self, name: str, *, num_systems: int, threads: int, **options: str) -> Party:
        """Return our engine."""
        return self._ours(EngineParty, name, num_systems, threads, options)

    def ours_by_rule(self, name: str, *, num_systems: int, threads: int, **options: str) -> Party:
        """Return our engine with kernels chosen by rule."""
        party = self._ours(EngineParty, name, num_systems, threads, options)
        party.kernels = None
        return party

    def ours_in_bfloat16(
        self, name: str, *, num_systems: int, threads: int, **options: str
    ) -> Party:
        """Return our engine with the program's own 16-bit precision."""
        party = self._ours(EngineParty, name, num_systems, threads, options)
        party.plan = self._compiled(Precision.EXACT)
        return party

    def client(self, name: str, *, num_systems: int) -> Party:
        """Return the real client with its script; no systems stand for its CPU backend."""
        assert isinstance(self.shape, GptShape)
        return ClientParty(
            name, shape=self.shape, num_systems=num_systems, directory=self._directory / name
        )

    def networked(
        self,
        name: str,
        *,
        num_systems: int,
        threads: int,
        precision: Precision = Precision.F32,
        keep_bytes: int = RunOptions().keep_weight_bytes,
    ) -> Party:
        """Return our engine with every system on a host of its own.

        Args:
            name: In tables.
            num_systems: CS-2 systems.
            threads: Threads of each.
            precision: How 16-bit formats are carried.
            keep_bytes: What each system keeps of the weights for the backward pass.
        """
        hosts = {
            "weight-0": "memory",
            "broadcastreduce-0": "memory",
            **{f"chief-{system}": f"csx-{system}" for system in range(num_systems)},
            **{f"activation-{system}": f"csx-{system}" for system in range(num_systems)},
        }
        options = {"keep_weight_bytes": str(keep_bytes)}
        party = self._ours(EngineParty, name, num_systems, threads, options)
        party.hosts, party.plan = hosts, self._compiled(precision)
        return party

    def profiled(self, *, num_systems: int, threads: int) -> ProfiledParty:
        """Return our engine with pods that note where their time goes."""
        return self._ours(ProfiledParty, "profiled", num_systems, threads, {})

    def _ours(
        self, kind: type[Ours], name: str, num_systems: int, threads: int, options: dict[str, str]
    ) -> Ours:
        return kind(
            name,
            shape=self.shape,
            plan=self._plan,
            state=self._state,
            batches=self._batches,
            num_systems=num_systems,
            threads=threads,
            directory=self._directory / name,
            options=options,
            kernels=self._kernels,
        )


def _ours(table: Table) -> list[Party]:
    return [
        table.torch("plain-2", "plain", num_ranks=1, threads=2),
        table.torch("plain-1", "plain", num_ranks=1, threads=1),
        table.ours("ours-2x1-ring", num_systems=2, threads=1),
        table.ours("ours-2x1-mapped", num_systems=2, threads=1, streams="mapped"),
        table.ours("ours-1x2-ring", num_systems=1, threads=2),
    ]


def _compilers(table: Table) -> list[Party]:
    return [
        table.torch("plain-2", "plain", num_ranks=1, threads=2),
        table.torch("compiled-2", "compiled", num_ranks=1, threads=2),
        table.ours("ours-2x1-mapped", num_systems=2, threads=1, streams="mapped"),
    ]


def _bfloat16(table: Table) -> list[Party]:
    return [
        table.torch("autocast-2", "autocast", num_ranks=1, threads=2),
        table.torch("compiled-autocast-2", "compiled-autocast", num_ranks=1, threads=2),
        table.ours("ours-2x1-mapped", num_systems=2, threads=1, streams="mapped"),
        table.ours_in_bfloat16("ours-bf16-2x1", num_systems=2, threads=1, streams="mapped"),
    ]


def _kernels(table: Table) -> list[Party]:
    return [
        table.torch("plain-2", "plain", num_ranks=1, threads=2),
        table.ours_by_rule("ours-2x1-by-rule", num_systems=2, threads=1, streams="mapped"),
        table.ours("ours-2x1-measured", num_systems=2, threads=1, streams="mapped"),
        table.ours("ours-1x2-measured", num_systems=1, threads=2),
    ]


def _ranks(table: Table) -> list[Party]:
    return [
        table.ours("ours-2x1-ring", num_systems=2, threads=1),
        table.torch("ddp-2x1", "ddp", num_ranks=2, threads=1),
        table.torch("fsdp2-2x1", "fsdp2", num_ranks=2, threads=1),
    ]


def _offload(table: Table) -> list[Party]:
    return [
        table.ours("ours-2x1-ring", num_systems=2, threads=1),
        table.torch("zero3-2x1", "zero3", num_ranks=2, threads=1),
    ]


def _client(table: Table) -> list[Party]:
    return [
        table.client("client-cpu", num_systems=0),
        table.client("client-2", num_systems=2),
    ]


def _network(table: Table) -> list[Party]:
    return [
        table.ours("ours-1x2-ring", num_systems=1, threads=2),
        table.networked("ours-1x2-network", num_systems=1, threads=2),
        table.ours("ours-2x1-ring", num_systems=2, threads=1),
        table.networked("ours-2x1-network", num_systems=2, threads=1),
    ]


def _kept(table: Table) -> list[Party]:
    return [
        table.ours("ours-2x1-ring", num_systems=2, threads=1),
        table.networked("ours-2x1-sent-twice", num_systems=2, threads=1, keep_bytes=0),
        table.networked("ours-2x1-kept", num_systems=2, threads=1),
    ]


def _narrow(table: Table) -> list[Party]:
    exact = Precision.EXACT
    return [
        table.ours("ours-2x1-ring", num_systems=2, threads=1),
        table.ours_in_bfloat16("ours-bf16-2x1-ring", num_systems=2, threads=1),
        table.networked("ours-bf16-2x1-network", num_systems=2, threads=1, precision=exact),
    ]


def _cuda(table: Table) -> list[Party]:
    mapped = {"device": Device.CUDA.value, "streams": "mapped"}
    return [
        table.torch("plain-cuda", "cuda", num_ranks=1, threads=2),
        table.ours("ours-1-cuda", num_systems=1, threads=2, **mapped),
        table.ours("ours-2-cuda", num_systems=2, threads=1, **mapped),
    ]


BFLOAT16 = "bfloat16"
"""The group that is held to its bars only where the processor multiplies bfloat16."""

GROUPS: dict[str, Callable[[Table], list[Party]]] = {
    "ours": _ours,
    "compilers": _compilers,
    BFLOAT16: _bfloat16,
    "ranks": _ranks,
    "offload": _offload,
    "client": _client,
    "network": _network,
    "kept": _kept,
    "narrow": _narrow,
    "kernels": _kernels,
    "cuda": _cuda,
}
"""Who is resident at the same time: together they must fit the memory."""

NEEDS_CUDA = frozenset({"cuda"})
"""Groups that are measured only if they are asked for; there are no bars for them."""

DEMANDS = (
    ("ours", "ours-2x1-ring", "plain-2", 0.98, 0.87),
    ("ours", "ours-2x1-mapped", "plain-2", 1.0, 0.94),
    ("ours", "ours-1x2-ring", "plain-2", 0.97, None),
    ("compilers", "ours-2x1-mapped", "compiled-2", 0.95, None),
    (BFLOAT16, "ours-bf16-2x1", "autocast-2", 1.0, None),
    ("kernels", "ours-2x1-measured", "ours-2x1-by-rule", 0.98, None),
    ("ranks", "ours-2x1-ring", "ddp-2x1", 1.1, None),
    ("ranks", "ours-2x1-ring", "fsdp2-2x1", 1.6, None),
    ("offload", "ours-2x1-ring", "zero3-2x1", 2.0, None),
    ("client", "client-2", "client-cpu", 1.3, None),
    ("network", "ours-1x2-network", "ours-1x2-ring", 0.85, None),
    ("network", "ours-2x1-network", "ours-2x1-ring", 0.87, None),
)
"""Group, ours, the other, least ratio at 512 tokens a step and at 128."""


_GROUP_OF_LARGE_STEPS = "compilers"
"""With 2,048 tokens a step a party takes 4 to 6 GB: in 24 GB there is room for three, not five."""
_GROUPS_OF_OTHER_MODELS = frozenset({"ours", "compilers", "kernels"})
"""What the models other than GPT are compared with."""


def groups_of(shape: Shape, groups: Sequence[str]) -> list[str]:
    """Return those of some groups whose parties can train a model."""
    is_gpt = model_name(shape) == "gpt"
    return [group for group in groups if is_gpt or group in _GROUPS_OF_OTHER_MODELS]


def demands(shape: Shape, group: str) -> Iterator[tuple[str, str, float]]:
    """Yield ours, the other and the least ratio of what a group is held to at a shape."""
    is_gpt, size = model_name(shape) == "gpt", shape.units_a_step
    if is_gpt and size > 512 and group != _GROUP_OF_LARGE_STEPS:
        return
    if not groups_of(shape, [group]):
        return
    for demand_group, ours, other, least, least_at_128 in DEMANDS:
        demanded = least_at_128 if is_gpt and size < 512 else least
        if demand_group == group and demanded is not None:
            yield ours, other, demanded


def compare(table: Table, groups: Sequence[str], *, num_rounds: int) -> Iterator[Bar]:
    """Run the groups of one shape, print their tables, and yield the bars.

    What a party is held to is that of the shape's name; one that did not run, or that computes
    another loss than the first, is a bar that could not be measured.
    """
    is_short = model_name(table.shape) == "gpt" and table.shape.units_a_step < 512
    num_steps = 12 if is_short else 4
    for group in groups:
        print(f"\n{table.name} {table.shape.name}: {group}", flush=True)
        comparison = Comparison(table.shape.units_a_step, model_of(table.shape).unit)
        parties = GROUPS[group](table)
        comparison.add_rounds(parties, num_rounds=num_rounds, num_steps=num_steps)
        for row in comparison.rows(parties[0].name):
            print(row, flush=True)
        for name, reason in comparison.faults(parties[0].name):
            print(f"# {name}: {reason}", flush=True)
            yield Bar(name=f"{table.name}.{group}.{name}", value=math.nan, least=0.0)
        for ours, other, least in demands(SHAPES[table.name], group):
            yield Bar(
                name=f"{table.name}.{ours}/{other}",
                value=comparison.ratio(ours, other),
                least=least,
            )


def show_profile(name: str, directory: Path, options: argparse.Namespace) -> bool:
    """Print where the time of a step goes; return whether the engine's own part is small enough."""
    table = Table(name, shapes_of(options)[name], directory, KernelTable(directory))
    party = table.profiled(num_systems=options.systems, threads=options.threads)
    entries = profile(party, options.steps)
    print(f"\n## {table.shape.name}, {options.systems} CS-2 x {options.threads} thread(s)")
    for row in rows(entries):
        print(row)
    own = overhead(entries)
    is_met = own <= _MOST_OVERHEAD
    verdict = "ok" if is_met else "MISSED"
    print(f"\n{name}.engine_overhead_of_a_system {own:.3f} <={_MOST_OVERHEAD} {verdict}")
    return is_met


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    options = _parse(arguments)
    bars: list[Bar] = []
    is_met = True
    with tempfile.TemporaryDirectory(prefix="wsc-bench-") as folder:
        for name in options.shape:
            directory = Path(folder) / name
            directory.mkdir()
            if options.profile:
                is_met = show_profile(name, directory, options) and is_met
                continue
            shape = shapes_of(options)[name]
            for number, group in enumerate(groups_of(shape, options.group)):
                place = directory / str(number)
                place.mkdir()
                table = Table(name, shape, place, KernelTable(Path(folder)))
                bars += compare(table, [group], num_rounds=options.rounds)
    print()
    for bar in bars:
        print(bar)
    return 0 if is_met and all(bar.is_met for bar in bars) else 1


def shapes_of(options: argparse.Namespace) -> dict[str, Shape]:
    """Return the shapes that the command line asks for."""
    return SMALL_SHAPES if options.small else SHAPES


def _unfit() -> frozenset[str]:
    """Return the groups that are measured here only if they are asked for."""
    return NEEDS_CUDA if multiplies_bfloat16() else NEEDS_CUDA | {BFLOAT16}


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="one shape, ours and plain PyTorch, three rounds")
    add("--small", action="store_true", help="a trial: one round of a tiny model")
    add("--shape", nargs="+", choices=sorted(SHAPES), help="model shapes; default: all")
    add(
        "--group",
        nargs="+",
        choices=sorted(GROUPS),
        help="groups of parties; default: all but those of other hardware",
    )
    add("--rounds", type=int, help="rounds of turns; default: 9")
    add("--profile", action="store_true", help="show where a step's time goes, measure no bar")
    add("--systems", type=int, default=2, help="for --profile: CS-2 systems")
    add("--threads", type=int, default=1, help="for --profile: threads of each")
    add("--steps", type=int, default=6, help="for --profile: steps to average over")
    options = parser.parse_args(arguments)
    options.shape = options.shape or (["d512"] if options.quick or options.profile else [*SHAPES])
    options.group = options.group or (
        ["ours"] if options.quick else [group for group in GROUPS if group not in _unfit()]
    )
    options.rounds = options.rounds or (1 if options.small else 3 if options.quick else 9)
    return options


if __name__ == "__main__":
    sys.exit(main())
