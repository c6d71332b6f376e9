"""Damaged program files: `python -m tests.fuzz.programs [FILES [SEED [--plain]]]`.

Each file is a right program with some bytes changed, or some values of its document: an index that
points elsewhere, another operation, a field of another record. A file is refused with a sentence,
or it runs: in a kernel that is compiled with the address and the undefined behaviour sanitizer, so
that a step out of a table ends the process. Files are read in processes of their own, which the
next file begins anew after one that ended it. Without a compiler, or with `--plain`, the kernel is
the one that users have. Prints what broke; exits 1 if anything did.
"""

import contextlib
import ctypes
import functools
import json
import mmap
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from base64 import b85encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from appliance.core.errors import UserError
from appliance.csl.compiler import compile_program
from appliance.csl.program import NO_CODE, Program, ProgramFormatError, decode, encode
from appliance.fabric import host_interface
from appliance.fabric.commands import Launch
from appliance.fabric.host_interface import Simulator
from appliance.fabric.native import build
from appliance.fabric.native.loader import Kernel
from appliance.fabric.options import SimulatorOptions
from tests.fuzz import csl
from tests.fuzz.mutation import mutated
from tests.support.csl import Files
from tests.support.fabric_drawings import program_of

MAX_SECONDS = 20
"""What a file may take, on a busy machine."""
_MAX_CYCLES = 3_000
_SLICE = 20_000
_SANITIZERS = (
    *("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    *("-fno-omit-frame-pointer", "-w"),
)
_NUMBERS = (
    *(-1, 0, 1, 2, 3, 4, 7, 8, 15, 16, 23, 24, 31, 32, 47, 48, 63, 64, 127, 128, 255, 256),
    *(0x7FFF, 0x8000, 0xFFFF, 0x10000, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 63, 1 << 64, 1 << 200),
)
# `Any`: values of a JSON document.
Way = tuple[Any, ...]
Change = Callable[[random.Random, "Place"], None]


@dataclass
class Place:
    """A value of a document: the list or object that holds it, and where there."""

    holder: Any
    key: Any
    document: Any
    paths: tuple[Way, ...]

    @property
    def value(self) -> Any:
        """What stands there."""
        return self.holder[self.key]

    @value.setter
    def value(self, new: Any) -> None:
        self.holder[self.key] = new


@dataclass
class Findings:
    """What a run has found.

    Attributes:
        answers: Files by what became of them.
        broken: The first file that broke each way.
    """

    answers: Counter[str] = field(default_factory=Counter)
    broken: dict[str, int] = field(default_factory=dict)


def seeds() -> list[bytes]:
    """Return right programs as files: random ones, examples, benchmarks, libraries.

    The random ones are many and small: larger ones hold no other kinds of records, and each damaged
    file of one takes three times as long.
    """
    found = [encode(program_of(seed, largest=1).program) for seed in range(60)]
    for right in csl.seeds():
        made = compile_program(right.main, right.options, Files(dict(right.texts))).program
        if made is not None and made.classes[0].functions:
            found.append(encode(made))
    return found


# --- damage


def damaged(number: int, seed: int, found: list[bytes]) -> bytes:
    """Return the file of a number: always the same for the same seed."""
    chance = random.Random(f"{seed}-{number}")
    right = chance.choice(found)
    if chance.random() < 0.02:
        return mutated(chance, [right])
    text = zlib.decompress(right)
    if chance.random() < 0.1:
        return zlib.compress(mutated(chance, [text]), 1)
    document = json.loads(text)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        place = _place(chance, document, _paths(text))
        if place is not None:
            chance.choice(_CHANGES)(chance, place)
    return zlib.compress(json.dumps(document).encode(), 1)


@functools.cache
def _paths(text: bytes) -> tuple[Way, ...]:
    """Return the ways to all values of a right document."""
    return tuple(_paths_in(json.loads(text), ()))


def _paths_in(value: Any, to: Way) -> Iterator[Way]:
    keys = (
        range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
    )
    for key in keys:
        yield (*to, key)
        yield from _paths_in(value[key], (*to, key))


def _place(chance: random.Random, document: Any, paths: tuple[Way, ...]) -> Place | None:
    """Return a value; None if an earlier change has taken it away."""
    *to, key = chance.choice(paths)
    holder = document
    try:
        for step in to:
            holder = holder[step]
        holder[key]
    except (LookupError, TypeError):
        return None
    return Place(holder, key, document, paths) if isinstance(holder, list | dict) else None


def _number(chance: random.Random, place: Place) -> None:
    if isinstance(place.value, int):
        near = place.value + chance.choice((-2, -1, 1, 2, 16))
        place.value = chance.choice((near, near, *_NUMBERS))
    else:
        _kin(chance, place)


def _kin(chance: random.Random, place: Place) -> None:
    """Put another value of the document of the same kind there."""
    kind, tag = type(place.value), _tag(place.value)
    for _ in range(30):
        other = _place(chance, place.document, place.paths)
        if other is None or type(other.value) is not kind:
            continue
        if chance.random() < 0.2 or _tag(other.value) == tag:
            place.value = json.loads(json.dumps(other.value))
            return


def _tag(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value and isinstance(value[0], str) else None


def _less(chance: random.Random, place: Place) -> None:
    if isinstance(place.value, list) and place.value:
        del place.value[chance.randrange(len(place.value))]


def _more(chance: random.Random, place: Place) -> None:
    if isinstance(place.value, list) and place.value:
        place.value.insert(0, json.loads(json.dumps(chance.choice(place.value))))
        if isinstance(place.value[1], list):
            place.value[:] = place.value * chance.choice((1, 1, 40))


def _words(chance: random.Random, place: Place) -> None:
    """Put the words of a grid, or bytes, where a text stands."""
    if isinstance(place.value, str):
        numbers = [chance.choice((0, 1, 2, NO_CODE, 1 << 20)) for _ in range(chance.randrange(12))]
        raw = np.array(numbers, dtype="<u4").tobytes()
        place.value = b85encode(zlib.compress(raw, 1)).decode()


def _nothing(chance: random.Random, place: Place) -> None:
    place.value = chance.choice((None, [], "", 0, True, 1.5, float("inf"), {}))


_CHANGES: tuple[Change, ...] = (
    *(_number, _number, _number, _number, _kin, _kin, _kin, _less, _more, _words, _nothing),
)


# --- what a file does


def answer(data: bytes) -> str:
    """Read a file and run what it holds for some cycles; return what became of it.

    Raises:
        Exception: It was neither refused nor run.
    """
    try:
        program = decode(data)
    except ProgramFormatError:
        return "no program"
    try:
        simulator = Simulator(program, options=SimulatorOptions(slice_work=_SLICE))
    except UserError:
        return "refused"
    try:
        _run(simulator, program)
    except UserError:
        return "failed"
    return "ran"


def _run(simulator: Simulator, program: Program) -> None:
    for source in program.classes[:1]:
        for export in source.exports:
            if export.function is None:
                continue
            takes = source.functions[export.function].num_parameters
            ticket = simulator.submit(Launch(export.name, (3,) * takes))
            for _ in range(3):
                if simulator.is_done(ticket):
                    break
    _look(simulator, program)


def _look(simulator: Simulator, program: Program) -> None:
    """Let what is active run, read what may be read, and describe what waits."""
    handle, kernel = simulator._handle, simulator._kernel
    for _ in range(3):
        if kernel.run(handle, _MAX_CYCLES, 0, 0, _SLICE) == 2:
            raise simulator._inspector.fault()
    str(simulator.stall_report("the end of the test"))
    simulator.console()
    for source in program.classes[:1]:
        for variable in source.variables:
            simulator.read_symbol(0, 0, variable.name)


# --- processes


def _serve(num_files: int, seed: int, library: str) -> int:
    """Answer files in forked processes, one line each; after one that ended, go on in another."""
    if library:
        loaded = ctypes.CDLL(library)
        kernel = Kernel(lambda name: ctypes.cast(loaded[name], ctypes.c_void_p).value or 0)
        host_interface.load_kernel = lambda _directory=None: kernel
    found, reached = seeds(), mmap.mmap(-1, 8)
    first = 0
    while first < num_files:
        with tempfile.TemporaryFile() as told:
            process = os.fork()
            if not process:
                os.dup2(told.fileno(), 2)
                os._exit(_answer_all(first, num_files, seed, found, reached))
            _, status = os.waitpid(process, 0)
            number = int.from_bytes(reached, "little")
            if status:
                told.seek(0)
                print(f"{number} BROKE {_end_of(status, told.read())!r}", flush=True)
        first = number + 1 if status else num_files
    return 0


def _answer_all(first: int, last: int, seed: int, found: list[bytes], reached: mmap.mmap) -> int:
    for number in range(first, last):
        reached[:] = number.to_bytes(8, "little")
        signal.alarm(MAX_SECONDS)
        try:
            print(f"{number} {answer(damaged(number, seed, found))}", flush=True)
        except Exception as error:  # noqa: BLE001 - every one is a finding
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__} at {place.filename.rpartition('/')[2]}:{place.lineno}"
            print(f"{number} BROKE {where + ': ' + str(error)[:90]!r}", flush=True)
    signal.alarm(0)
    return 0


def _end_of(status: int, told: bytes) -> str:
    lines = told.decode(errors="replace").splitlines()
    named = [line.strip() for line in lines if "ERROR" in line or "runtime error" in line]
    places = [line.strip() for line in lines if line.strip().startswith("#") and "native" in line]
    ended = f"status {os.waitstatus_to_exitcode(status)}"
    return f"{ended}: " + " ".join((named or lines[-2:])[:1] + places[:3])


def fuzz(num_files: int, seed: int, *, library: str = "") -> Findings:
    """Read and run so many damaged files."""
    findings = Findings()
    command = [sys.executable, "-m", "tests.fuzz.programs", "--serve", str(num_files), str(seed)]
    serving = subprocess.Popen(
        [*command, library], env=_environment(library), stdout=subprocess.PIPE, text=True
    )
    with serving:
        assert serving.stdout is not None
        for line in serving.stdout:
            number, what = line.rstrip().split(" ", 1)
            is_broken = what.startswith("BROKE")
            findings.answers["broke" if is_broken else what] += 1
            if is_broken:
                kind = re.sub(r"0x[0-9a-f]+|==\d+==", "", what)
                findings.broken.setdefault(kind, int(number))
    if serving.returncode:
        findings.broken["the process that forks the others ended"] = serving.returncode
    return findings


def _environment(library: str) -> Mapping[str, str]:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    if library:
        environment["LD_PRELOAD"] = sanitizer() or ""
        environment["ASAN_OPTIONS"] = "detect_leaks=0:allocator_may_return_null=1"
        environment["UBSAN_OPTIONS"] = "print_stacktrace=1"
    return environment


def sanitizer() -> str | None:
    """Return the library of the address sanitizer; None where there is none."""
    if shutil.which("gcc") is None:
        return None
    command = ["gcc", "-print-file-name=libasan.so"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return path if Path(path).is_absolute() else None


@contextlib.contextmanager
def sanitized() -> Iterator[str]:
    """Give the path of a kernel whose steps are watched; empty without a compiler."""
    if sanitizer() is None:
        yield ""
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "kernel.so"
        build.build_library(path, "gcc", *_SANITIZERS)
        yield str(path)


def main() -> int:
    """Run from the command line."""
    if "--serve" in sys.argv:
        num_files, seed, library = sys.argv[2:5]
        return _serve(int(num_files), int(seed), library)
    words = [word for word in sys.argv[1:] if word != "--plain"]
    num_files = int(words[0]) if words else 10_000
    seed = int(words[1]) if len(words) > 1 else 1
    began = time.monotonic()
    with contextlib.nullcontext("") if "--plain" in sys.argv else sanitized() as library:
        findings = fuzz(num_files, seed, library=library)
    for text, number in findings.broken.items():
        print(f"file {number} of seed {seed}: {text}")
    told = ", ".join(f"{count:,} {what}" for what, count in findings.answers.most_common())
    print(
        f"{num_files:,} damaged program files in {time.monotonic() - began:.0f} s, "
        f"{'with' if library else 'without'} sanitizers: {told}; {len(findings.broken)} broke"
    )
    return 1 if findings.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
