"""The public CSL examples: all sources parse, all command files compile, and those run that can.

`python -m tests.support.csl_examples DIR [--jobs N] [--only TEXT]` prints one line for each. DIR is
a checkout of public examples, or a directory with several; nothing is written to it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from appliance.csl.sources import Source
from appliance.csl.syntax import parse

ROOT = Path(__file__).parents[2]
COMPILED_ONLY: frozenset[tuple[str, str]] = frozenset()
"""Examples that the simulated fabric does not run rightly yet: they stop after the compile."""

BANDWIDTH_TEST = (
    "-m=5 -n=5 -k=5 --latestlink latest --channels=1 --width-west-buf=0 --width-east-buf=0 "
    "--compile-only",
    "-m=5 -n=5 -k=5 --latestlink latest --channels=1 --width-west-buf=0 --width-east-buf=0 "
    "--run-only --loop_count=1 --simulator",
)
"""What its `run.appliance.py` is told, once to compile and once to run: as its comments say."""

_SECONDS = 600
_TEMPLATE = "%python_sdk_paint"
"""What stands in the command files of examples of `SdkLayout`, for `cs_python run.py`."""


@dataclass(frozen=True)
class Example:
    """One command file of one example."""

    repository: Path
    commands: Path

    @property
    def name(self) -> str:
        """How it is called in the report."""
        return f"{self.repository.name}/{self.program} {self.architecture}"

    @property
    def program(self) -> str:
        """The directory that it lies in."""
        return self.commands.parent.name

    @property
    def architecture(self) -> str:
        """`wse2` or `wse3`."""
        return self.commands.stem.removeprefix("commands_")

    @property
    def runs(self) -> bool:
        """Whether its host program is run, too."""
        return (self.program, self.architecture) not in COMPILED_ONLY

    @property
    def reports_success(self) -> bool:
        """Whether its host program says so in words, and not by its exit code alone."""
        return '"SUCCESS!"' in (self.commands.parent / "run.py").read_text()

    @property
    def script(self) -> str:
        """The commands."""
        return self.commands.read_text().replace(_TEMPLATE, "cs_python run.py")

    @property
    def compiles(self) -> bool:
        """Whether there is something to do: a compile, by the commands or by the program."""
        text = self.commands.read_text()
        return "cslc" in text or _TEMPLATE in text


@dataclass(frozen=True)
class Outcome:
    """What came of one."""

    is_good: bool
    words: str
    seconds: float
    output: str = ""
    is_tried: bool = True
    """False where the commands name nothing that this could do."""


def repositories(directory: Path) -> list[Path]:
    """Return the checkouts in a directory: itself, or those below it."""
    if (directory / "tutorials").is_dir():
        return [directory]
    return sorted(path for path in directory.iterdir() if (path / "tutorials").is_dir())


def examples(directory: Path) -> Iterator[Example]:
    """Yield every command file below a directory."""
    for repository in repositories(directory):
        for path in sorted(repository.glob("*/*/commands_wse[23].sh")):
            yield Example(repository, path)


def sources(directory: Path) -> Iterator[Path]:
    """Yield every CSL file below a directory."""
    for repository in repositories(directory):
        yield from sorted(repository.rglob("*.csl"))


def run(example: Example, scratch: Path) -> Outcome:
    """Run a command file in a copy of its repository."""
    if not example.compiles:
        return Outcome(True, "no compile in its commands", 0.0, is_tried=False)
    copy = scratch / example.name.replace("/", "_").replace(" ", "_")
    shutil.copytree(example.repository, copy, ignore=shutil.ignore_patterns(".git"))
    tools = scratch / ("run" if example.runs else "compile")
    directory = copy / example.commands.parent.relative_to(example.repository)
    start = time.monotonic()
    try:
        done = subprocess.run(
            ["bash", "-c", example.script, example.commands.name],
            cwd=directory,
            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired:
        code, output = 124, f"still at it after {_SECONDS} seconds"
    seconds = time.monotonic() - start
    missing = "" if code else _missing_output(directory)
    shutil.rmtree(copy)
    words = "runs" if example.runs else "compiles"
    is_good = code == 0 and not missing
    failure = f"does not {words.removesuffix('s')}: {missing or f'exit code {code}'}"
    return Outcome(is_good, words if is_good else failure, seconds, output)


def make_tools(scratch: Path) -> None:
    """Put `cslc` and `cs_python` where command files find them; once with programs not run."""
    tools = {
        "cslc": f'exec "{sys.executable}" -m appliance.sdk.cslc "$@"',
        "sdk_debug_shell": f'exec "{sys.executable}" -m appliance.sdk.sdk_debug_shell "$@"',
        "cs_python": f'exec "{sys.executable}" -m appliance.sdk.cs_python "$@"',
    }
    for name, changes in {"run": {}, "compile": {"cs_python": "exit 0"}}.items():
        (scratch / name).mkdir()
        for tool, command in {**tools, **changes}.items():
            path = scratch / name / tool
            path.write_text(f'#!/bin/sh\nexport PYTHONPATH="{ROOT}"\n{command}\n')
            path.chmod(0o755)


def parses(path: Path) -> Outcome:
    """Parse one source file."""
    start = time.monotonic()
    _, diagnostics = parse(Source(str(path), path.read_text(), 0))
    text = "\n".join(each.render() for each in diagnostics)
    return Outcome(not text, "does not parse" if text else "parses", time.monotonic() - start, text)


def _missing_output(directory: Path) -> str:
    made = [path.parent.parent for path in directory.glob("*/bin/out_rpc.json")]
    if not made:
        return "no out_rpc.json"
    for path in made:
        if not (path / "out.json").is_file() or not list(path.glob("bin/out_[0-9]*.elf")):
            return f"{path.name} lacks out.json or its code"
    return ""


def main() -> int:
    """Run from the command line; 1 if anything is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="examples whose name has this text")
    arguments = parser.parse_args()
    if not repositories(arguments.directory):
        parser.error(f"there is no checkout of examples in {arguments.directory}")
    num_bad = _report_sources(arguments.directory) if not arguments.only else 0
    chosen = [each for each in examples(arguments.directory) if arguments.only in each.name]
    with tempfile.TemporaryDirectory(prefix="csl-examples-") as scratch:
        make_tools(Path(scratch))
        with ThreadPoolExecutor(arguments.jobs) as pool:
            outcomes = pool.map(lambda each: run(each, Path(scratch)), chosen)
            is_good = report(chosen, outcomes)
    return 1 if num_bad or not is_good else 0


def report(chosen: Sequence[Example], outcomes: Iterable[Outcome]) -> bool:
    """Print a line for each example as it ends, and the sum; return whether all are good."""
    found = []
    for example, outcome in zip(chosen, outcomes, strict=True):
        found.append(outcome)
        _print(example.name, outcome)
    print(summary(found), flush=True)
    return all(each.is_good for each in found)


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return how many command files did what they should, and how many name nothing to do."""
    tried = [each for each in outcomes if each.is_tried]
    good = sum(each.is_good for each in tried)
    text = f"{good} of {len(tried)} command files compile and run"
    others = len(outcomes) - len(tried)
    return f"{text}; {others} name no compile" if others else text


def _report_sources(directory: Path) -> int:
    outcomes = {path: parses(path) for path in sources(directory)}
    bad = {path: outcome for path, outcome in outcomes.items() if not outcome.is_good}
    for path, outcome in bad.items():
        _print(str(path.relative_to(directory)), outcome)
    print(f"{len(outcomes) - len(bad)} of {len(outcomes)} source files parse", flush=True)
    return len(bad)


def _print(name: str, outcome: Outcome) -> None:
    mark = ("ok  " if outcome.is_tried else "--  ") if outcome.is_good else "FAIL"
    print(f"{mark} {name:55} {outcome.words} ({outcome.seconds:.1f} s)", flush=True)
    if not outcome.is_good:
        print("\n".join(f"     {line}" for line in outcome.output.splitlines()[-12:]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
