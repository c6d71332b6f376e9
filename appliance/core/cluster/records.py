"""Stored records of jobs, pods and workflows: values that every layer above shares."""

import datetime as dt
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from appliance.core.changed_values import changed
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.requirements import Requirements
from appliance.core.ids import JobId, PodName, Role, WorkflowId
from appliance.core.quick_init import quick_init

DEFAULT_SESSION = "job-operator"
"""The session (namespace) that exists without being created."""

DEFAULT_PRIORITY = 299
"""Priority value of bucket P2, which a job gets unless it asks for another."""

MAX_LABELS = 64
"""Labels that a job has at most; an array may add two to those of its runs."""

MAX_PRIORITY = 399
"""Largest priority value; lower values go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Who asked for something, as the client's metadata say.

    Attributes:
        uid: Numeric user id; -1 when the caller did not say.
        gid: Numeric group id; -1 when the caller did not say.
        name: Login name; may be empty.
    """

    uid: int = -1
    gid: int = -1
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorAddress:
    """Where a job's coordinator is, and for whom.

    Attributes:
        address: host:port; empty before it listens.
        authority: By which the job's client calls it; only the owner is told.
        owner_uid: User id of the job's owner.
    """

    address: str
    authority: str
    owner_uid: int


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job as it is submitted.

    Attributes:
        type: Compile or execute.
        session: Namespace it belongs to.
        workflow: Workflow it belongs to.
        user: Who submitted it.
        priority: Value from 0 to `MAX_PRIORITY`; lower goes first.
        num_systems: Whole systems it needs; 0 for a compile job.
        workers_per_system: Input workers for each system; 0 for a compile job.
        labels: The user's tags.
        work_dir: Directory that keeps its logs, specs and request.
        client_workdir: Where the client runs, as it says.
        service_authority: Authority under which the client calls the job's coordinator.
        requirements: What it asks for beyond its systems.
        request_digest: By which a call that comes again is known; empty if none is looked for.
        held_by: Who holds it back while it waits; empty for nobody.
        client_release: Release of the client that submitted it, as in `2.10.0`; empty if it did
            not say.
        array: The array of detached runs that it belongs to; empty if it belongs to none.
    """

    id: JobId
    type: JobType
    session: str
    workflow: WorkflowId
    user: User
    priority: int = DEFAULT_PRIORITY
    num_systems: int = 0
    workers_per_system: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    work_dir: str = ""
    client_workdir: str = ""
    service_authority: str = ""
    requirements: Requirements = field(default_factory=Requirements)
    request_digest: str = ""
    held_by: str = ""
    client_release: str = ""
    array: str = ""

    @property
    def artifact_dir_of_client(self) -> str:
        """`host:directory` below which its client lowers programs; empty if it says none.

        The client calls `host:DIRECTORY/executors/NUMBER` its working directory: one for each loop
        of its script.
        """
        directory, found, number = self.client_workdir.rpartition("/executors/")
        return posixpath.normpath(directory) if found and number.isdecimal() else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlacement:
    """Alike pods of a gang on one node.

    Attributes:
        count: How many.
        memory_bytes: Memory of all of them.
        num_cores: CPU cores of all of them.
    """

    node: str
    role: str
    count: int
    memory_bytes: int
    num_cores: int

    # `Any`: values of a JSON array.
    @property
    def numbers(self) -> Sequence[Any]:
        """Its fields in their order, ready for JSON."""
        return [self.node, self.role, self.count, self.memory_bytes, self.num_cores]

    @classmethod
    def of(cls, numbers: Sequence[Any]) -> "PodPlacement":
        """Return what `numbers` gave."""
        node, role, count, memory, cores = numbers
        return cls(node=node, role=role, count=count, memory_bytes=memory, num_cores=cores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a job was granted beyond its systems.

    Attributes:
        node_groups: Names of its node groups.
        pods: Where its pods are, as far as they count against nodes.
        reserved_systems: Systems that it holds for later jobs of its workflow.
        is_lookup: Whether it is a compile job that was granted nothing yet: it looks into the
            compile cache, or has done so in vain and waits for the memory that compiling takes.
    """

    node_groups: tuple[str, ...] = ()
    pods: tuple[PodPlacement, ...] = ()
    reserved_systems: tuple[str, ...] = ()
    is_lookup: bool = False

    # `Any`: values of a JSON object.
    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are not empty, ready for JSON."""
        fields = {name: value for name in self.__slots__ if (value := getattr(self, name))}
        if self.pods:
            fields["pods"] = [pod.numbers for pod in self.pods]
        return fields

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Holding":
        """Return what `to_dict` wrote."""
        return cls(
            node_groups=tuple(fields.get("node_groups", ())),
            pods=tuple(map(PodPlacement.of, fields.get("pods", ()))),
            reserved_systems=tuple(fields.get("reserved_systems", ())),
            is_lookup=bool(fields.get("is_lookup")),
        )


NO_HOLDING = Holding()
"""What a job holds that waits, or that holds systems alone."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord(NewJob):
    """A job as stored.

    Attributes:
        sequence: Order of submission, unique and growing.
        phase: Where it stands.
        message: Reason of the present phase, for people, in one line; may be empty.
        detail: The whole text of that reason, as with a traceback; empty if the line says it all.
        systems: Names of the systems granted to it, also after it ended.
        holding: What it was granted beyond its systems.
        verdict: How it will end, once that is decided and until it has; None otherwise.
        num_starts: How often it was admitted.
        service_address: host:port of its coordinator; empty before it listens.
        artifact_dir: For a finished compile, where its artifacts are.
        created_at: When it was submitted.
        started_at: When it got its resources; None before that.
        ended_at: When it reached its final phase; None before that.
    """

    sequence: int
    phase: Phase
    message: str
    detail: str = ""
    systems: tuple[str, ...]
    holding: Holding = NO_HOLDING
    # `Any`: a JSON object, read and written by the job machine.
    verdict: Mapping[str, Any] | None = None
    num_starts: int = 0
    service_address: str
    artifact_dir: str
    created_at: dt.datetime
    started_at: dt.datetime | None
    ended_at: dt.datetime | None

    # `Any`: values of the fields.
    def changed(self, changes: Mapping[str, Any]) -> "JobRecord":
        """Return the record with other values of some fields.

        Each job of a busy queue changes some six times within a moment.
        """
        return changed(self, **changes)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """A pod as stored.

    Attributes:
        job: The job it belongs to.
        role: What it does.
        index: Number among the job's pods of that role.
        node: Name of the node it runs on.
        pid: Process id on the node; 0 before launch.
        phase: `Pending`, `Running`, `Succeeded` or `Failed`, the words of pod listings.
        exit_code: Exit code, 128 plus the number for a signal; None while it runs.
        message: How it ended; empty while it runs.
        step: Steps it has completed, as last reported.
        resident_bytes: Resident memory, as last reported.
        readings: Current values by metric name, as last reported.
        ended_at: When it ended.
    """

    name: PodName
    job: JobId
    role: Role
    index: int
    node: str
    pid: int = 0
    phase: str = "Pending"
    exit_code: int | None = None
    message: str = ""
    step: int = 0
    resident_bytes: int = 0
    readings: Mapping[str, float] = field(default_factory=dict)
    ended_at: dt.datetime | None = None


CHECKPOINT_EVENT = "Checkpoint"
"""Reason of an event: a client has fetched a whole state, to write it to a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """Something that happened to a job.

    Attributes:
        at: When.
        reason: One word in camel case, as in `PodFailed`.
        message: One sentence.
        subject: Name of the pod it concerns, else of the job.
        is_warning: Whether the user should be told without asking.
        phase: For a phase change, the phase entered; None for any other event.
    """

    job: JobId
    at: dt.datetime
    reason: str
    message: str
    subject: str
    is_warning: bool = False
    phase: Phase | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRecord:
    """A workflow as stored.

    Attributes:
        session: Namespace it belongs to.
        user: Who opened it.
        reserves_resources: Whether its systems were asked to stay reserved between jobs.
        is_released: Whether the client has given up the reservation.
        created_at: When it was opened.
    """

    id: WorkflowId
    session: str
    user: User
    reserves_resources: bool
    is_released: bool
    created_at: dt.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What a workflow retains between its jobs.

    Attributes:
        systems: All systems that it keeps, also those that a job of it uses now.
        node_groups: All node groups that it keeps.
    """

    workflow: WorkflowRecord
    systems: tuple[str, ...]
    node_groups: tuple[str, ...] = ()
