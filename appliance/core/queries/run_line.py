"""A run in a list: a script with all jobs that it has submitted.

A run is what one workflow has done, and its id is the workflow's. A *detached* run begins with its
driver, whose script submits the other jobs; the jobs of an *attached* run are those of a client in
somebody's terminal. See docs/decisions/0202-a-run-is-its-workflow.md.
"""

import datetime as dt
import hashlib
import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from appliance.core.cluster.drivers import DriverSpec
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import User
from appliance.core.ids import ARRAY_LABEL, ARRAY_PREFIX, INDEX_LABEL, JobId, WorkflowId
from appliance.core.integers import MAX_POSITION, find_integer
from appliance.core.queries.job_filter import JobLine

NAME_LABEL = "name"
"""The label that names a run, and that its jobs inherit."""

_OF_ARRAY = (ARRAY_LABEL, INDEX_LABEL)
_OWN_VARIABLES = "WSC_"


def run_name(labels: Mapping[str, str], *, array: str) -> str:
    """Return what a run is called, by the labels of its first job; empty if it has no name.

    A run of an array has its index behind the array's name, as in `sweep.3`.
    """
    name = labels.get(NAME_LABEL, "")
    return f"{name}.{labels[INDEX_LABEL]}" if name and array else name


def inherited_labels(
    driver: Mapping[str, str], own: Mapping[str, str], *, most: int
) -> dict[str, str]:
    """Return the labels of a job that a run's script submits: its own, then those of its driver.

    Its place in an array is the driver's alone: arrays are found, waited for and cancelled by it.

    Args:
        driver: Labels of the driver.
        own: Labels that the job was submitted with; they win.
        most: Labels that a job may have; its own are never left out for inherited ones.
    """
    new = {key: value for key, value in driver.items() if key not in own and key not in _OF_ARRAY}
    kept = sorted(new, key=lambda key: key != NAME_LABEL)[: max(0, most - len(own))]
    return {**{key: new[key] for key in new if key in kept}, **own}


class RunKind(StrEnum):
    """Who runs a run's script: a driver, or a client in somebody's terminal."""

    DETACHED = "detached"
    ATTACHED = "attached"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """A run.

    Attributes:
        id: Its id: that of its workflow.
        name: What it is called; empty if it has no name.
        jobs: Its jobs, oldest first; at least one.
        spec: What its driver runs; None for an attached run.
        has_client: Whether the client of an attached run lives, so that more jobs may come.
    """

    id: WorkflowId
    name: str
    jobs: Sequence[JobLine]
    spec: DriverSpec | None
    has_client: bool = False

    @property
    def first(self) -> JobLine:
        """The job that says whose it is, and where."""
        return self.jobs[0]

    @property
    def driver(self) -> JobLine | None:
        """The job that runs its script; None for an attached run."""
        return self.first if self.first.type is JobType.DRIVER else None

    @property
    def kind(self) -> RunKind:
        """Who runs its script."""
        return RunKind.DETACHED if self.driver else RunKind.ATTACHED

    @property
    def user(self) -> User:
        """Its owner."""
        return self.first.user

    @property
    def array(self) -> str:
        """The array that it belongs to; empty if it belongs to none."""
        array = self.first.labels.get(ARRAY_LABEL, "") if self.driver else ""
        return array if array.startswith(ARRAY_PREFIX) else ""

    @property
    def index(self) -> int | None:
        """Its number in its array."""
        text = self.first.labels.get(INDEX_LABEL, "") if self.array else ""
        return find_integer(text, MAX_POSITION)

    @property
    def deciding(self) -> JobLine:
        """The job whose phase is the run's: its driver, else what lives of it, else its last."""
        if self.driver is not None:
            return self.driver
        live = [job for job in self.jobs if not job.phase.is_terminal]
        running = [job for job in live if job.phase.holds_resources]
        return (running or live or self.jobs)[-1]

    @property
    def is_between_jobs(self) -> bool:
        """Whether its client lives and none of its jobs does: its script goes on."""
        return self.driver is None and self.has_client and not self.unfinished

    @property
    def is_over(self) -> bool:
        """Whether nothing of it lives, and nothing can come."""
        return not self.unfinished and not self.is_between_jobs

    @property
    def phase(self) -> Phase:
        """Where it stands: as the job that decides, or running while its script alone does."""
        return Phase.RUNNING if self.is_between_jobs else self.deciding.phase

    @property
    def message(self) -> str:
        """Reason of the phase."""
        if not self.is_between_jobs:
            return self.deciding.message
        last = self.jobs[-1]
        why = f" ({last.message})" if last.message and last.phase is not Phase.SUCCEEDED else ""
        return f"its script goes on after {last.id}, which is {last.phase.value}{why}"

    @property
    def ended_at(self) -> dt.datetime | None:
        """When it ended; None while one of its jobs has not, or its client lives."""
        if self.is_between_jobs:
            return None
        ends = [job.ended_at for job in self.jobs]
        known = [end for end in ends if end is not None]
        return max(known) if len(known) == len(ends) else None

    @property
    def started_at(self) -> dt.datetime | None:
        """When the first of its jobs got its resources."""
        return min((job.started_at for job in self.jobs if job.started_at), default=None)

    @property
    def unfinished(self) -> Sequence[JobId]:
        """What has not ended: its driver alone, with which the others end, else every job."""
        live = [job.id for job in self.jobs if not job.phase.is_terminal]
        return live[:1] if live and self.driver and live[0] == self.driver.id else live

    @property
    def trains(self) -> Sequence[JobLine]:
        """Its jobs that train or evaluate, oldest first."""
        return [job for job in self.jobs if job.type is JobType.EXECUTE]

    @property
    def log_job(self) -> JobId:
        """The job whose main log is the run's: the script's, else that of what ran last."""
        if self.driver is not None:
            return self.driver.id
        return (self.trains or self.jobs)[-1].id

    @property
    def work_dir(self) -> str:
        """Where its script runs; of an attached one as `host:directory`, as its client says."""
        if self.spec is not None:
            return self.spec.work_dir
        lowering = next((job.client_workdir for job in self.jobs if job.client_workdir), "")
        return lowering.rpartition("/executors/")[0] or lowering

    @property
    def client_release(self) -> str:
        """Release of its client; empty if that did not say."""
        return next((job.client_release for job in self.jobs if job.client_release), "")

    @property
    def argv(self) -> tuple[str, ...]:
        """Its program and arguments; empty for an attached run, whose client tells neither."""
        return self.spec.argv if self.spec is not None else ()

    @property
    def script(self) -> str:
        """The one word that tells most of its command: the script, else the program."""
        for word in (part for argument in self.argv[1:] for part in argument.split()):
            if word.endswith((".py", ".sh")):
                return posixpath.basename(word)
        return posixpath.basename(self.argv[0]) if self.argv else ""

    @property
    def environment_digest(self) -> str:
        """What tells two environments apart, without the variables that differ in each run."""
        if self.spec is None:
            return ""
        variables = {
            name: value
            for name, value in self.spec.environment.items()
            if not name.startswith(_OWN_VARIABLES)
        }
        text = json.dumps(variables, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def commit(self) -> str:
        """The git commit of its directory, in hexadecimal; empty if that is not known."""
        return self.spec.commit if self.spec is not None else ""

    @property
    def is_dirty(self) -> bool | None:
        """Whether files differed from that commit; None if that is not known."""
        return self.spec.is_dirty if self.spec is not None else None
