"""What the runs of a case amount to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.modelzoo.cases import Case

EXACT_TOLERANCES = {"float16": 2**-10, "cbfloat16": 2**-9, "bfloat16": 2**-8}
"""Of a loss when every 16-bit result is rounded: the step from 1 to the format's next number."""


RUNS = ("cpu", "csx-1", "csx-2", "exact")
ON = (("csx-1", 1), ("csx-2", 2))
"""Runs that compute in float32, and their systems."""
KINDS = ("train", "eval", "converted", "tokens")
"""Of losses, in their order."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What one case came to.

    Attributes:
        word: `pass`, `fail`, `untraced` (the client refuses it, as the table says) or `missing`.
        difference: Largest relative difference of a loss from the CPU backend's.
        exact: The same with `--precision exact`; None if that was not run.
        systems: Of the runs that were compared without rounding.
        step_seconds: Median wall time of a step on one system.
        losses: Of training on one system.
        message: Of a failure.
    """

    word: str
    difference: float = math.nan
    exact: float | None = None
    systems: tuple[int, ...] = ()
    step_seconds: float = math.nan
    losses: tuple[float, ...] = ()
    message: str = ""


def runs_of(case: Case) -> tuple[str, ...]:
    """Return the runs of a case: where tokens are chosen of rounded numbers they are others."""
    return tuple(run for run in RUNS if run != "exact" or case.generate is None)


def judge(case: Case, answers: Mapping[str, Mapping[str, Any]]) -> Verdict:
    """Hold the runs of a case against one another.

    Args:
        case: The case.
        answers: By run: `cpu`, `csx-1`, `csx-2`, `exact`; some may be missing.
    """
    answers = {run: answers[run] for run in runs_of(case) if run in answers}
    for run, answer in answers.items():
        if answer["status"] != "done":
            message = f"{run}: {answer.get('message', answer['status'])}"
            traced = not case.refused or case.refused not in message
            return Verdict(word="fail" if traced else "untraced", message=message)
    if "cpu" not in answers or len(answers) < 2:
        return Verdict(word="missing")
    found = {run: losses_of(answer) for run, answer in answers.items()}
    want = found["cpu"]
    differences = [difference(found[run], want) for run, _ in ON if run in found]
    exact = difference(found["exact"], want) if "exact" in found else None
    largest = max(differences, default=math.nan)
    is_right = largest <= case.tolerance and (exact is None or exact <= exact_tolerance(case))
    shown = answers.get("csx-1") or answers["cpu"]
    steps = shown["result"]["step_seconds"]
    return Verdict(
        word="pass" if is_right else "fail",
        difference=largest,
        exact=exact,
        systems=tuple(systems for run, systems in ON if run in found),
        step_seconds=steps,
        losses=tuple(losses_of(shown)),
    )


def exact_tolerance(case: Case) -> float:
    """Return the tolerance of a case, or of its 16-bit format."""
    if case.exact_tolerance:
        return case.exact_tolerance
    precision = case.order()["init"]["precision"]
    return EXACT_TOLERANCES[precision["fp16_type"]]


def losses_of(answer: Mapping[str, Any]) -> list[float]:
    """Return all losses of a run, training first."""
    losses = answer["result"]["losses"]
    return [float.fromhex(x) for kind in KINDS for x in losses.get(kind, ())]


def difference(found: list[float], want: list[float]) -> float:
    """Return the largest relative difference; infinite for another number of losses, or a NaN."""
    if len(found) != len(want) or not want:
        return math.inf
    pairs = zip(found, want, strict=True)
    differences = [abs(a - b) / max(abs(b), 1e-12) for a, b in pairs]
    return math.inf if any(math.isnan(x) for x in differences) else max(differences)
