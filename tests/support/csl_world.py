"""Public programs of other people, compiled and run as they are.

`python -m tests.support.csl_world DIR [--only TEXT]` prints one line for each. DIR has a checkout
of each repository as OWNER+NAME, or NAME; what is not there is left out. Nothing of them is kept
here but where they are and how their own instructions run them.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.csl_examples import make_tools

SECONDS = 600


@dataclass(frozen=True)
class PublicProgram:
    """A program of a repository.

    Attributes:
        repository: `OWNER/NAME` on GitHub.
        commit: What was tried.
        commands: How its own instructions run it, from the repository's root.
        says: Text that it prints when its values are right; empty if it checks them by exit code.
        known: Why it is not expected to succeed; empty if it is.
    """

    repository: str
    commit: str
    commands: str
    says: str = ""
    known: str = ""


_SPIKES = "siddharthbc/CSR-graph-coloring"
_SPIKES_COMMIT = "b31ce8862e"


def _spike(name: str, says: str = "") -> PublicProgram:
    # Its scripts name the compiler of their author's machine.
    commands = f"cd {name} && sed -i 's#/home/siddharthb/tools/##g' commands.sh && bash commands.sh"
    return PublicProgram(_SPIKES, _SPIKES_COMMIT, commands, says)


_ANNEALING = (
    "sed -i 's/^import tomli$/import tomllib as tomli/' src/*.py && "
    "cs_python src/build.py --name out --config config/small.toml && "
    "cs_python src/run.py --name out --config config/small.toml"
)
"""What its `commands.sh` does in a container."""

_TRAINING = {
    "practicals/hands-on/ex1-single-PE-GEMV/solution-A-loops": "SUCCESS!",
    "practicals/hands-on/ex1-single-PE-GEMV/solution-B-DSD": "SUCCESS!",
    "practicals/hands-on/ex2-multi-PE-GEMV/solution": "SUCCESS!",
    "practicals/hands-on/ex3-multi-PE-GEMV-collective/solution": "SUCCESS!",
    "practicals/walk-through/wt1-getting-started": "SUCCESS!",
    "practicals/walk-through/wt2-basic-syntax": "SUCCESS!",
    "practicals/walk-through/wt4-memoryDSDs": "SUCCESS!",
    "practicals/walk-through/wt5-multiple-PEs": "SUCCESS!",
    "practicals/walk-through/wt7-collective-communications": "SUCCESS",
}
"""What is complete; the others are exercises with gaps."""

_SUMMA = (
    "summa_manual_multicasting",
    "summa_manual_multicasting_pipelined",
    "summa_manual_multicasting_pipelined_doubleColor",
    "summa_overlapping_experiment",
    "previous_manual/summa_manual_original",
    "previous_manual/summa_manual_pipelined",
)
"""Products of matrices on a mesh; some change their routes through pointers to registers."""

_TILES = "{ cslc layout.csl --fabric-dims=12,7 --fabric-offsets=4,1 --memcpy --channels=1 PARAMS "
_TILES += "--arch=ARCH --max-inlined-iterations=1000000 -o out && cs_python run.py --name out; }"
"""What `run.sh` of the stencils does for a grid of its table, without the vendor's traces."""


def _stencil(at: str, params: str) -> PublicProgram:
    lines = [_TILES.replace("PARAMS", params).replace("ARCH", arch) for arch in ("wse2", "wse3")]
    commands = f"cd {at} && {' && '.join(lines)}"
    return PublicProgram("Jorineg/cerebras", "911a32763c", commands, "SUCCESS!")


_OURS = Path(__file__).parent / "csl_world_programs"
_COLLECTIVES = f"bash {_OURS}/collectives.sh {_OURS}/collectives.py"
"""Its clocks are internals of SDK 1.0: `<time>` stands in. It checks no values; ours does."""

_STENCIL = f"bash {_OURS}/star.sh {_OURS}"
"""Its library under a star stencil of ours, since its own programs need another compiler."""

PROGRAMS = (
    PublicProgram("notlober/vector-add-csl", "eba1427b7d", "bash commands.sh", "SUCCESS!"),
    PublicProgram("leightonw-cerebras/sliding-bower", "c827ac6b73", "bash commands.sh", "SUCCESS!"),
    PublicProgram("leightonw-cerebras/dirk-demo", "c541a4eed1", "bash commands.sh"),
    PublicProgram("mk3174/cerebras-assignment", "660105ee4c", "bash commands.sh", "6 passed"),
    PublicProgram("da-luce/cs5220_hw4", "0592bc8573", "bash run.sh 4 4 8 8 8"),
    PublicProgram("jmazzatorta/laplace-fmmki-wse3", "c0542f48a9", "bash commands.sh"),
    PublicProgram("AsgerWenneb/sem_pytorch_cerebras", "b2bd6058d1", "cd csl && bash run_wse3.sh"),
    PublicProgram(
        "mmore500/wse-evo-epi",
        "ea481605ed",
        "bash commands.sh",
        known="waits for a wavelet more than comes here; its comments ask why there is one",
    ),
    PublicProgram("fixstars/simulated-annealing-on-wse", "0a3eb56945", _ANNEALING, "OK"),
    *(
        PublicProgram("EPCCed/cs2-sdk-training", "b7323a62cb", f"cd {at} && bash commands.sh", says)
        for at, says in _TRAINING.items()
    ),
    PublicProgram("spcl/spatial-collectives", "082621a0b0", _COLLECTIVES, "16 RIGHT"),
    PublicProgram("xdslproject/wse-stencil", "4f20072755", _STENCIL, "12 RIGHT"),
    *(
        PublicProgram(
            "Wang-oss-tech/csl-experiments",
            "b6b608d74c",
            f"cd gemm/{at} && bash commands_wse2.sh",
            "SUCCESS",
        )
        for at in _SUMMA
    ),
    _stencil("tiled-stencil", "--params=w:11,h:11,tile_width:3,tile_height:3,radius:1"),
    _stencil("tiled-stencil", "--params=w:10,h:10,tile_width:3,tile_height:3,radius:2"),
    _stencil("non-tiled-tencil", "--params=w:5,h:5,steps:4"),
    _spike("spikes/experiments/allreduce_spike"),
    _spike("spikes/experiments/pipelined_lww_1d_spike", "PASS: all 4 PEs"),
    _spike("spikes/experiments/pipelined_lww_1d_seg_spike", "PASS: all 10 PEs"),
    _spike("spikes/experiments/pipelined_lww_1d_seg2_spike", "PASS: all 15 PEs"),
    _spike("spikes/experiments/rotating_root_spike"),
    _spike("spikes/experiments/rotating_root_2d_spike"),
)


@dataclass(frozen=True)
class Outcome:
    """What came of a program."""

    program: PublicProgram
    is_right: bool
    seconds: float
    output: str


def checkout_of(program: PublicProgram, directory: Path) -> Path | None:
    """Return where a program's repository lies; None if it is not there."""
    owner, _, name = program.repository.partition("/")
    return next(
        (directory / at for at in (f"{owner}+{name}", name) if (directory / at).is_dir()), None
    )


def run(program: PublicProgram, checkout: Path, scratch: Path) -> Outcome:
    """Run a program in a copy of its repository."""
    copy = scratch / checkout.name
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git"), symlinks=True)
    path = f"{scratch / 'run'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "CSLC": "cslc", "CS_PYTHON": "cs_python"}
    start = time.monotonic()
    done = subprocess.run(
        ["timeout", str(SECONDS), "bash", "-c", program.commands],
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    shutil.rmtree(copy)
    is_right = done.returncode == 0 and program.says in done.stdout
    return Outcome(program, is_right, time.monotonic() - start, done.stdout)


def outcomes(directory: Path, only: str) -> Iterator[Outcome]:
    """Run what is there."""
    with tempfile.TemporaryDirectory(prefix="csl-world-") as scratch:
        make_tools(Path(scratch))
        for program in PROGRAMS:
            checkout = checkout_of(program, directory)
            if checkout is not None and only in f"{program.repository} {program.commands}":
                yield run(program, checkout, Path(scratch))


def main() -> int:
    """Run from the command line; 1 if a program fails that should not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", default="", help="programs that have this text")
    arguments = parser.parse_args()
    num_bad, tried = 0, 0
    for outcome in outcomes(arguments.directory, arguments.only):
        tried += 1
        program = outcome.program
        mark = "ok  " if outcome.is_right else "--  " if program.known else "FAIL"
        num_bad += mark == "FAIL"
        words = "" if outcome.is_right else program.known or "does not run"
        name = f"{program.repository} ({program.commands})"
        print(f"{mark} {name:90} {words} ({outcome.seconds:.1f} s)", flush=True)
        if mark == "FAIL":
            print(
                "\n".join(f"     {line}" for line in outcome.output.splitlines()[-12:]), flush=True
            )
    print(f"{tried} programs tried, {num_bad} fail", flush=True)
    return 1 if num_bad or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
