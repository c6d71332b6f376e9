"""Everything the engine is held to, in one command: one line for each bar.

    python -m benchmarks.engine_bars [--only PART ...] [--list] [--small]

Each part is a process of its own, so that no part meets what another has left in memory. What it
prints is passed on; at the end come all its lines `name value bar ok|MISSED` together. The exit
code is 1 if one says MISSED, or if a part ends without a line for each of its bars. `--small` runs
every part at a size that shows that it works; its figures mean nothing.

Tables that are held to nothing, such as other frameworks at 128 tokens a step, are left to
`python -m benchmarks.engine`.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from appliance.core.ids import Role
from appliance.core.pods.pod_options import StreamMode
from benchmarks.engine import BFLOAT16, GROUPS, SHAPES, demands
from benchmarks.engine_parties.environment import multiplies_bfloat16
from benchmarks.engine_parties.interpreters import Program, start_benchmark, text_of

_LINE = re.compile(r"\S+ \S+ .*\b(ok|MISSED)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One process.

    Attributes:
        name: For the command line.
        module: What it runs.
        arguments: Its command line.
        small: What is added for a trial.
        num_bars: How many lines it says at least; 0 if it holds its figures to nothing.
        needs_bfloat16: Whether it is measured only where the processor multiplies bfloat16.
    """

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    small: tuple[str, ...] = ()
    num_bars: int = 1
    needs_bfloat16: bool = False

    def words(self, *, is_small: bool) -> list[str]:
        """Return what an interpreter is told."""
        added = self.small if is_small else ()
        return ["-m", self.module, *self.arguments, *added]


def parts() -> Iterator[Part]:
    """Yield what has bars, and what explains their figures."""
    for shape, sizes in SHAPES.items():
        for group in GROUPS:
            if num_bars := len(list(demands(sizes, group))):
                yield Part(
                    name=f"{shape}.{group}",
                    module="benchmarks.engine",
                    arguments=("--shape", shape, "--group", group),
                    small=("--small",),
                    num_bars=num_bars,
                    needs_bfloat16=group == BFLOAT16,
                )
    profile = ("--profile", "--shape", "d512")
    yield Part(
        name="overhead",
        module="benchmarks.engine",
        arguments=profile,
        small=("--small", "--steps", "1"),
    )
    for name, num_bars in (("worker", 1), ("copies", 2), ("twice", 1), ("large", len(StreamMode))):
        yield Part(
            name=f"memory.{name}",
            module="benchmarks.memory",
            arguments=("--only", name),
            small=("--small",),
            num_bars=num_bars,
        )
    yield Part(name="memory.growth", module="benchmarks.memory_growth", num_bars=len(Role))
    tiny: tuple[str, ...] = ("--width", "64", "--depth", "2", "--heads", "2", "--rounds", "3")
    yield Part(name="update", module="benchmarks.kernels", small=tiny)
    against = ("--against-f32",)
    yield Part(
        name="bfloat16",
        module="benchmarks.kernels",
        arguments=against,
        small=tiny,
        num_bars=2,
        needs_bfloat16=True,
    )
    one_round = ("--rounds", "1")
    few: tuple[str, ...] = (*one_round, "--tokens", "32")
    yield Part(name="sparse-kernels", module="benchmarks.sparse_kernels", small=few)
    little: tuple[str, ...] = ("--width", "64", "--depth", "1", "--seq-len", "32", *one_round)
    yield Part(name="experts", module="benchmarks.experts", small=little)
    little = ("--small", "--rounds", "1")
    yield Part(name="sparsity", module="benchmarks.sparsity", small=little)
    little = ("--width", "64", "--layers", "1", "--positions", "24", "--batches", "2")
    yield Part(name="generation", module="benchmarks.generation", small=little, num_bars=4)
    yield Part(name="start-up", module="benchmarks.start_up", small=("--runs", "1"))
    small_weights = ("--layers", "2", "--width", "512")
    yield Part(name="weights-wire", module="benchmarks.weights_wire", small=small_weights)
    few = (*one_round, "--messages", "5")
    yield Part(name="streams", module="benchmarks.streams", small=few, num_bars=0)
    yield Part(
        name="call-overhead",
        module="benchmarks.program_overhead",
        small=("--ops", "200", "--repeats", "3"),
        num_bars=0,
    )
    yield Part(name="network-streams", module="benchmarks.network_streams", small=few)


def measured_here(every: Iterable[Part]) -> Iterator[str]:
    """Yield the names of the parts that this processor is held to; say which it is not."""
    can_multiply = multiplies_bfloat16()
    for part in every:
        if part.needs_bfloat16 and not can_multiply:
            print(f"{part.name} is left out: this processor does not multiply bfloat16")
            continue
        yield part.name


def run(
    part: Part, *, is_small: bool, start: Callable[[Sequence[str]], Program] = start_benchmark
) -> list[str]:
    """Run a part and pass its output on; return its lines.

    Args:
        part: It.
        is_small: Whether it is a trial.
        start: Starts it.
    """
    print(f"\n== {part.name}", flush=True)
    found: list[str] = []
    with start(part.words(is_small=is_small)) as process:
        try:
            for line in text_of(process.stdout):
                print(line, end="", flush=True)
                if _LINE.fullmatch(line.strip()):
                    found.append(line.strip())
        except BaseException:  # as a test's time limit or an interrupt: nobody reads it any more
            process.kill()
            raise
    code, says_missed = process.wait(), any(line.endswith("MISSED") for line in found)
    if code and not says_missed:
        found.append(f"{part.name} not-measured exit-code-{code} MISSED")
    elif len(found) < part.num_bars:
        said = f"said-{len(found)}-of-{part.num_bars}-lines"
        found.append(f"{part.name} not-measured {said} MISSED")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    known = {part.name: part for part in parts()}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=sorted(known), metavar="PART")
    parser.add_argument("--list", action="store_true", help="print the parts and do nothing")
    parser.add_argument("--small", action="store_true", help="a trial of every part")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(known))
        return 0
    wanted = options.only or list(measured_here(known.values()))
    lines = [line for name in wanted for line in run(known[name], is_small=options.small)]
    print("\n== bars")
    print("\n".join(lines))
    return 1 if any(line.endswith("MISSED") for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
