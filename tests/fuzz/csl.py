"""Damaged CSL programs: `python -m tests.fuzz.csl [FILES [SEED [DIRECTORY]]]`.

Each file is a right program with some tokens, lines or characters changed. The compiler has to
answer with a program or with diagnostics, within `MAX_SECONDS` of processor time and `MAX_BYTES`
of memory a file, with the options that `cslc` has by default. Right programs are our own; those
of checkouts of the public examples come to them if DIRECTORY names some. Prints what broke, which
file took longest and the most memory that a process had; exits 1 if anything broke.
"""

import multiprocessing
import os
import random
import resource
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from appliance.csl.compiler import compile_program
from appliance.csl.options import CompileOptions
from appliance.csl.syntax import tokenize
from appliance.sdk.arguments import parse
from tests.support.csl import LAYOUT, Files

ROOT = Path(__file__).parents[2]
MAX_SECONDS = 60
"""Processor seconds for one file: 30 million steps at compile time, the most, take about 25."""
MAX_BYTES = 2 << 30
"""Memory of the process that compiles one file after another."""
FILES_PER_PROCESS = 250
_TEXT = """
{ } ( ) ; , . : = == & | -> .* .{ [ ] [*] * + - / % << >> < and or ! ~ =>
0 1 -1 3 65536 4294967295 99999999999999999999 1.5 1e9 0xffff 'a' "x" true false
if else while for switch fn task const var param comptime inline return break
struct enum union packed export extern layout u16 i16 u32 i32 f16 f32 bool void
type color direction anytype @zeros @constants @as @bitcast @range @get_dsd @map
@import_module @get_color @activate @type_of @strcat @set_rectangle @fmacs @mov32
"""
_WORDS = _TEXT.split()
_SHARED = "benchmark-libs"
"""Directory of modules that several of the public examples share."""


@dataclass(frozen=True)
class Seed:
    """A right program: its files, the one with the layout, and the options of the compiler."""

    main: str
    texts: Mapping[str, str]
    options: CompileOptions


@dataclass(frozen=True)
class Answer:
    """What the compiler made of one damaged program."""

    number: int
    seconds: float
    """Processor time."""
    problem: str = ""
    """How it broke; empty if it did not."""


class TooLongError(Exception):
    """A file took more than its processor time."""


def seeds(examples: Path | None = None) -> list[Seed]:
    """Return right programs, ours and those of a checkout of the public examples."""
    found = [
        _seed(ROOT / "examples" / "csl", (("width", 4), ("height", 2), ("n", 8)), memcpy=True),
        _seed(ROOT / "benchmarks" / "csl_programs" / "loops", (), memcpy=True),
        _seed(
            ROOT / "benchmarks" / "csl_programs" / "reduce",
            (("num_pes", 8), ("group", 4), ("length", 16)),
            memcpy=True,
        ),
    ]
    libraries = ROOT / "appliance" / "csl" / "libraries"
    for path in sorted(libraries.rglob("*.csl")):  # each as the code of a PE
        texts = {"layout.csl": LAYOUT, "pe.csl": path.read_text()}
        found.append(Seed("layout.csl", texts, CompileOptions()))
    for path in sorted(examples.rglob("commands_wse[23].sh")) if examples else []:
        found.extend(_compiled_by(path))
    return found


def _compiled_by(commands: Path) -> Iterator[Seed]:
    """Yield the programs that an example's command file compiles, with its options."""
    directory = commands.parent
    paths = _near(commands)
    if any(_SHARED in path.read_text() for path in paths):
        paths += sorted((directory.parent / _SHARED).rglob("*.csl"))
    texts = {os.path.relpath(path, directory): path.read_text() for path in paths}
    for line in commands.read_text().replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["cslc"]:
            arguments = parse(words[1:])
            name = os.path.normpath(arguments.main)
            if name in texts:
                yield Seed(name, texts, arguments.options)


def _near(path: Path) -> list[Path]:
    return sorted(path.parent.rglob("*.csl"))


def _seed(directory: Path, parameters: tuple[tuple[str, int], ...], *, memcpy: bool) -> Seed:
    texts = {path.name: path.read_text() for path in directory.glob("*.csl")}
    return Seed(
        "layout.csl", texts, CompileOptions(parameters=parameters, memcpy=memcpy, channels=1)
    )


def mutated(text: str, chance: random.Random) -> str:
    """Return a text with one to six changes."""
    for _ in range(chance.randint(1, 6)):
        text = chance.choice(_CHANGES)(text, chance)
    return text


def _change_token(text: str, chance: random.Random) -> str:
    tokens = tokenize(text)[0][:-1]
    if not tokens:
        return text
    token, other = chance.choice(tokens), chance.choice(tokens).text
    word = chance.choice([other, chance.choice(_WORDS)])
    new = chance.choice(["", f"{token.text} {token.text}", word, f"{word} {token.text}"])
    return f"{text[: token.start]}{new} {text[token.end :]}"


def _change_line(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    change = chance.randrange(3)
    if change == 0:
        del lines[at]
    elif change == 1:
        lines.insert(other, lines[at])
    else:
        lines[at], lines[other] = lines[other], lines[at]
    return "\n".join(lines)


def _change_characters(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    end = min(len(text), at + chance.choice([0, 1, 1, 2, 40]))
    new = "".join(chance.choice("(){}[];.,*&@'\"\\09aZ_ \n\t\0é\u2028😀") for _ in range(3))
    return text[:at] + chance.choice(["", new]) + text[end:]


def _repeat(text: str, chance: random.Random) -> str:
    tokens = tokenize(text)[0][:-1]
    if not tokens:
        return text
    first = chance.randrange(len(tokens))
    last = min(len(tokens) - 1, first + chance.randrange(12))
    start, end = tokens[first].start, tokens[last].end
    return text[:end] + f" {text[start:end]}" * chance.choice([1, 3, 50]) + text[end:]


_CHANGES = (_change_token, _change_token, _change_token, _change_line, _change_characters, _repeat)


def damaged(number: int, seed: int, found: list[Seed]) -> tuple[Seed, dict[str, str]]:
    """Return the program of a number: always the same for the same seed."""
    chance = random.Random(f"{seed}-{number}")
    right = chance.choice(found)
    texts = dict(right.texts)
    name = chance.choice(sorted(texts))
    texts[name] = mutated(texts[name], chance)
    return right, texts


def answers(numbers: range, seed: int, found: list[Seed]) -> Iterator[Answer]:
    """Compile the programs of some numbers."""
    before = signal.signal(signal.SIGPROF, _raise)
    try:
        for number in numbers:
            right, texts = damaged(number, seed, found)
            began = time.process_time()
            problem = _problem(right, texts)
            yield Answer(number, time.process_time() - began, problem)
    finally:
        signal.signal(signal.SIGPROF, before)


def _problem(right: Seed, texts: dict[str, str]) -> str:
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
    try:
        text = compile_program(right.main, right.options, Files(texts)).render()
    except Exception:  # noqa: BLE001 - every one is a finding
        return traceback.format_exc(limit=-6)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "ran out of memory" if "more memory at compile time" in text else ""


def _raise(number: int, frame: FrameType | None) -> None:
    raise TooLongError(f"more than {MAX_SECONDS} s of processor time")


def _process(numbers: range, seed: int, examples: Path | None) -> tuple[list[Answer], int]:
    """Answer some files in a process of their own; return the answers and its peak memory."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    made = list(answers(numbers, seed, seeds(examples)))
    return made, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main() -> int:
    """Run from the command line."""
    num_files = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    examples = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    began = time.monotonic()
    parts = [
        (range(at, min(at + FILES_PER_PROCESS, num_files)), seed, examples)
        for at in range(0, num_files, FILES_PER_PROCESS)
    ]
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=1) as pool:
        results = pool.starmap(_process, parts, chunksize=1)
    made = [answer for part, _ in results for answer in part]
    broken = [answer for answer in made if answer.problem]
    for answer in broken:
        print(f"file {answer.number} of seed {seed}: {answer.problem}", flush=True)
    slowest = max(made, key=lambda answer: answer.seconds)
    print(
        f"{num_files:,} damaged files of {len(seeds(examples))} programs in "
        f"{time.monotonic() - began:.0f} s; {len(broken)} broke or took more than {MAX_SECONDS} s "
        f"or {MAX_BYTES >> 30} GiB\n"
        f"slowest: file {slowest.number} of seed {seed}, {slowest.seconds:.2f} s of processor "
        f"time; peak memory of a process: {max(peak for _, peak in results) >> 20} MiB"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
