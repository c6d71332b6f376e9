"""Random CSL programs against a plain model: `python -m tests.fuzz.values [COUNT [SEED]]`.

`python -m tests.fuzz.values SEED-NUMBER-DRAWN` runs the program that a report names.

Each program is compiled and run on one PE, of one architecture and the other by turns, and tells
every number that it leaves in memory. Programs that do what no document says are drawn anew. Of a
program that differs, statements are left out as long as it still does; what is left is printed.
"""

import math
import re
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from appliance.core.errors import UserError
from appliance.csl.compiler import compile_program
from appliance.csl.options import CompileOptions
from appliance.fabric.commands import CopyOut, Launch, Region
from appliance.fabric.host_interface import Simulator
from tests.support.csl import Files
from tests.support.csl_random import numbers as n
from tests.support.csl_random.programs import RandomProgram, program

ONE = Region(0, 0, 1, 1)


def problem_of(drawn: RandomProgram, architecture: str) -> str:
    """Run a program; return how it differs from the model, empty if it does not.

    Raises:
        UnspecifiedError: No document says what it does.
    """
    wanted = drawn.wanted()
    options = CompileOptions(architecture=architecture, memcpy=True, fp16_format=drawn.half.name)
    compilation = compile_program("layout.csl", options, Files(drawn.texts()))
    if compilation.program is None and "is no integer" in compilation.render():
        raise n.UnspecifiedError("a known float beyond the integers, where nothing goes")
    if compilation.program is None:
        return f"refused: {compilation.render()}"
    try:
        simulator = Simulator(compilation.program)
        simulator.submit(Launch("main"))
        found = simulator.wait(simulator.submit(CopyOut("out", ONE, 2 * len(wanted))))
    except UserError as error:
        return f"failed: {error}"
    assert found is not None
    return _difference(wanted, found.reshape(-1).astype(np.uint64).tolist())


def _difference(wanted: list[tuple[str, n.Kind, n.Number]], words: list[int]) -> str:
    for at, (text, kind, value) in enumerate(wanted):
        bits = words[2 * at] | words[2 * at + 1] << 32
        found = n.of_pattern(bits, kind)
        if isinstance(value, float) and math.isnan(value):  # Which one is not specified.
            is_right = math.isnan(found)
        else:
            is_right = bits == n.pattern_of(value, kind)
        if not is_right:
            return f"wrong: {text} is {found} ({bits:#x}), not {value}"
    return ""


def check(seed: str, architecture: str) -> tuple[str, str]:
    """Draw and run a program: the way in which it fails, and the smallest that does."""
    try:
        drawn = program(seed)
        problem = problem_of(drawn, architecture)
    except n.UnspecifiedError:
        return "drawn anew", ""
    if not problem:
        return "", ""
    return problem.split(":")[0], smallest(drawn, architecture, problem)


def smallest(drawn: RandomProgram, architecture: str, problem: str) -> str:
    """Leave out what the failure does not need; return the program and the failure."""
    way = _way(problem)
    for at in reversed(range(len(drawn.parts))):  # Later ones use what earlier ones declare.
        drawn.without.add(at)
        try:
            now = problem_of(drawn, architecture)
        except (n.UnspecifiedError, KeyError):  # What is left may use what was left out.
            now = ""
        if _way(now) == way:
            problem = now
        else:
            drawn.without.discard(at)
    return f"{architecture} {drawn.half.name} {drawn.seed}: {problem}\n{drawn.texts()['pe.csl']}"


def _way(problem: str) -> str:
    """What two failures of one kind have in common."""
    line = problem.split("\n", maxsplit=1)[0]
    return re.sub(r"[0-9]+", "", line) if problem.startswith("refused") else line.split(":")[0]


def one(job: tuple[str, int]) -> tuple[str, str]:
    """Run the program of a number, drawn anew until it is specified."""
    seed, number = job
    for drawn in range(60):
        way, text = check(f"{seed}-{number}-{drawn}", ("wse2", "wse3")[number % 2])
        if way != "drawn anew":
            return way, text
    return "drawn anew", ""


def main(count: int, seed: str) -> int:
    """Run programs; print those that fail, at most three of a way; return how many did."""
    began, ways, failed = time.monotonic(), Counter[str](), list[int]()
    with ProcessPoolExecutor() as pool:
        found = pool.map(one, ((seed, k) for k in range(count)), chunksize=10)
        for number, (way, text) in enumerate(found):
            ways[way] += 1
            if way:
                failed.append(number)
            if text and ways[way] <= 3:
                print(text, flush=True)
    took = time.monotonic() - began
    told = ", ".join(f"{n} {way or 'as the model says'}" for way, n in ways.most_common())
    print(f"{count} programs, seeds {seed}-0 to {seed}-{count - 1}, in {took:.0f} s: {told}")
    for number in failed:
        print(f"not as the model says: {seed}-{number}")
    return len(failed)


def again(seed: str) -> int:
    """Run the program of a seed that was printed, on both architectures."""
    found = [check(seed, architecture) for architecture in ("wse2", "wse3")]
    print("\n".join(text or way or "as the model says" for way, text in found))
    return sum(bool(way) for way, _ in found)


if __name__ == "__main__":
    given = sys.argv[1:] or ["10000"]
    is_count = given[0].isdigit()
    sys.exit((main(int(given[0]), (given[1:] or ["1"])[0]) if is_count else again(given[0])) != 0)
