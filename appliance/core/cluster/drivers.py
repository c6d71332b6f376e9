"""Detached runs: what a driver runs, and when its script is started again.

A *driver* is a job whose only pod runs the user's script; the script is an ordinary client, and the
compile and execute jobs that it submits belong to the driver's workflow. So a run outlives the
terminal it was submitted from.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import chain
from typing import Any

from appliance.core.errors import UserError
from appliance.core.integers import MAX_SECONDS
from appliance.core.quick_init import quick_init

MAX_RESTARTS = 100
"""More than this is a script that cannot work."""

RESTART_EVENT = "DriverRestarted"
"""Reason of the event that a restart under the user's policy writes; those are counted by it."""

PREEMPTED_EVENT = "DriverRestartedAfterPreemption"
"""Reason of the event that a restart writes because a job of the run was preempted."""

DISRUPTED_RESTART_EVENT = "DriverRestartedAfterDisruption"
"""Reason of the event that a restart writes because a pod of the run was taken away."""

LAST_WORDS_EVENT = "DriverScriptFailed"
"""Event with the last error that a script printed before it ended."""

END_EVENT = "DriverScriptEnded"
"""Reason of the event that tells of a script that ended badly and is not started again."""

POD_LOST_EVENT = "PodLost"
"""Reason of the event with which a coordinator names the pod whose loss has failed its job."""

POD_FAILED_EVENT = "PodFailed"
"""Reason of the event with which a coordinator names the pod whose own failure is the job's."""

PREEMPTION_EVENT = "Preempted"
"""Reason of the event of a job that is stopped for another, or because somebody holds it."""

DISRUPTION_EVENT = "Disrupted"
"""Reason of the event of a pod that was taken away, where jobs are not to fail for that."""

NODE_LOST_EVENT = "NodeLost"
"""Reason of the event of a pod whose node, or what ran it there, was lost."""


class FailureCategory(StrEnum):
    """Why a script ended badly.

    A `pod` of the run ended though its job needed it, a `node` or what runs its pods was lost, or
    neither: the `user`'s script or data are at fault, and starting them again would not help.
    """

    POD = "pod"
    NODE = "node"
    USER = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When a script is started again.

    Attributes:
        on: Categories of failure; never `user`.
        limit: How often at most; 0 for never.
    """

    on: tuple[FailureCategory, ...] = ()
    limit: int = 0

    def __post_init__(self) -> None:
        if FailureCategory.USER in self.on:
            raise UserError(
                "A run that fails by its own error is never restarted.",
                hint="Restart policies are for `pod` and `node`.",
            )
        if not 0 <= self.limit <= MAX_RESTARTS:
            raise UserError(
                f"A restart limit of {self.limit} is not possible; it is 0 to {MAX_RESTARTS}."
            )


VALUE_PREFIX = "WSC_VALUE_OF_"
"""Begins the names by which a driver's container has variables whose values were read for it."""

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where programs are looked for if the environment of a run does not say."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSpec:
    """What a driver runs.

    Attributes:
        argv: Program and arguments.
        work_dir: Where it runs.
        environment: Its environment, but for what the appliance adds.
        value_from: Further variables, whose values Kubernetes reads, as in a container's spec: by
            name of the variable, such as `{"secretKeyRef": {"name": ..., "key": ...}}`.
        num_systems: Systems that the script will ask for; 0 if it does not say.
        restart: When it is started again.
        time_limit_seconds: Each job of the script is ended after so long, counted from its start;
            0 sets no limit.
        commit: The git commit of its directory when it was submitted, in hexadecimal; empty if the
            directory is in no repository, or nobody has said.
        is_dirty: Whether files that git tracks differed from it; None if that is not known.
    """

    argv: tuple[str, ...]
    work_dir: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    value_from: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    num_systems: int = 0
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    time_limit_seconds: float = 0.0
    commit: str = ""
    is_dirty: bool | None = None

    def programs(self, path: str) -> tuple[str, ...]:
        """Return where its program may lie: in each folder of PATH, unless it is called by one."""
        program = self.argv[0]
        if "/" in program:
            return (program,)
        return tuple(f"{folder or '.'}/{program}" for folder in path.split(":"))

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise UserError("There is no program to run.", hint="Write it after `--`.")
        if not self.work_dir.startswith("/"):
            raise UserError(f"Working directory {self.work_dir!r} is no absolute path.")
        variables = self.environment.items()
        if not 0 <= self.time_limit_seconds <= MAX_SECONDS:
            raise UserError(
                f"A time limit of {self.time_limit_seconds:g} s is not possible.",
                hint="Give a number of seconds above 0, or 0 for none.",
            )
        if self.commit and not _COMMIT.fullmatch(self.commit):
            raise UserError(
                f"{self.commit[:80]!r} is no git commit.", hint="Give 40 or 64 hexadecimal digits."
            )
        if any("\0" in text for text in (*self.argv, self.work_dir, *chain(*variables))):
            raise UserError("A program, argument or variable contains a zero byte.")
        self._check_names()

    def _check_names(self) -> None:
        for name in self.environment:
            if not _is_variable(name):
                raise UserError(
                    f"{name!r} cannot be the name of a variable.",
                    hint="A name has a character or more, and no '='.",
                )
        for name in self.value_from:
            if not _PLAIN_VARIABLE.fullmatch(name):
                raise UserError(
                    f"{name!r} cannot be the name of a variable whose value is read.",
                    hint="A name has letters, digits and '_', and begins with no digit.",
                )
            if name in self.environment:
                raise UserError(
                    f"Variable {name} has a value, and one that is read. Leave out one."
                )

    def to_json(self) -> str:
        """Return the JSON text of the spec."""
        values = {name: getattr(self, name) for name in _FIELDS}
        values["environment"] = dict(self.environment)
        if not self.value_from:  # an older appliance does not know it
            del values["value_from"]
        values["restart"] = {"on": self.restart.on, "limit": self.restart.limit}
        return _ENCODER.encode(values)

    @classmethod
    def from_json(cls, text: str) -> "DriverSpec":
        """Return the spec written by `to_json`."""
        values = json.loads(text)
        # Older ones may have variables that no program has ever got.
        named = values["environment"].items()
        values["environment"] = {name: value for name, value in named if _is_variable(name)}
        restart = values.pop("restart")
        policy = RestartPolicy(
            on=tuple(FailureCategory(each) for each in restart["on"]), limit=restart["limit"]
        )
        return cls(**{**values, "argv": tuple(values["argv"])}, restart=policy)


_PLAIN_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def _is_variable(name: str) -> bool:
    return bool(name) and "=" not in name


_FIELDS = tuple(field.name for field in fields(DriverSpec))
_ENCODER = json.JSONEncoder(sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Losses of a run since the last start of its script.

    Attributes:
        pods: Pods that ended though their job needed them, with how they ended.
        nodes: Sentences about nodes, or what runs their pods, that were lost.
        preemptions: Sentences about jobs that were stopped for others of higher priority.
        disruptions: Pods that were taken away, where no run is to fail for that.
    """

    pods: Sequence[str] = ()
    nodes: Sequence[str] = ()
    preemptions: Sequence[str] = ()
    disruptions: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Whether a script is started again.

    Attributes:
        is_wanted: Whether it is.
        reason: Why, or why not; one sentence.
        event: Reason of the event that it writes.
    """

    is_wanted: bool
    reason: str
    event: str = RESTART_EVENT

    @property
    def is_counted(self) -> bool:
        """Whether it counts against the limit of the user's policy."""
        return self.event == RESTART_EVENT


def categorise(losses: Losses, *, by_signal: int | None) -> tuple[FailureCategory, str]:
    """Return why a script ended badly, and what shows it.

    Args:
        losses: What was lost of its run.
        by_signal: Signal that ended the script itself; None if it ended by itself.
    """
    if losses.nodes:
        return FailureCategory.NODE, losses.nodes[0]
    if losses.pods:
        return FailureCategory.POD, losses.pods[0]
    if by_signal is not None:
        return FailureCategory.POD, f"signal {by_signal} ended the script"
    return FailureCategory.USER, "no pod and no node of its run was lost"


def decide(policy: RestartPolicy, losses: Losses, *, exit_code: int, num_restarts: int) -> Restart:
    """Decide whether a script that ended is started again.

    A script whose job was preempted is always started again, and that does not count: its user
    allowed the preemption and has done nothing wrong. So it is with disruptions, where the
    administrator has said so.

    Args:
        policy: What the user asks for.
        losses: What was lost of its run.
        exit_code: How it ended; 128 and the number for a signal.
        num_restarts: How often it was started again already.
    """
    if exit_code == 0:
        return Restart(is_wanted=False, reason="the script has succeeded")
    if losses.preemptions:
        story = f"exit code {exit_code}, preempted: {losses.preemptions[0]}"
        return Restart(is_wanted=True, reason=story, event=PREEMPTED_EVENT)
    if losses.disruptions:
        story = f"exit code {exit_code}, disrupted: {losses.disruptions[0]}"
        return Restart(is_wanted=True, reason=story, event=DISRUPTED_RESTART_EVENT)
    by_signal = exit_code - 128 if exit_code > 128 else None
    category, what = categorise(losses, by_signal=by_signal)
    story = f"exit code {exit_code}, category {category.value}: {what}"
    if category not in policy.on:
        return Restart(is_wanted=False, reason=story)
    if num_restarts >= policy.limit:
        return Restart(
            is_wanted=False, reason=f"{story}; all {policy.limit} restart(s) are used up"
        )
    return Restart(is_wanted=True, reason=story)
