"""The spec with which a pod is launched, and the paths of its sockets."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from appliance.core.errors import InternalError
from appliance.core.ids import JobId, PodName, Role, pod_name
from appliance.core.pods.options_text import read_options, write_options
from appliance.core.pods.pod_options import PodOptions, for_role, options_type
from appliance.core.quick_init import quick_init

Options = TypeVar("Options", bound=PodOptions)

JOB_KEY_METADATA = "wsc-job-key"
"""gRPC metadata by which a pod shows management that it knows its job's key."""

MANAGEMENT = "management"
"""How `PodSpec.nodes` calls management."""

_NODES_KEY = "hosts"
"""How `nodes` is called in JSON: fork servers and agents that are older than management read it."""

REQUEST_FILE = "request.bin"
"""Name, in a job's work directory, of the client's serialised job request; launchers write it."""

EXIT_FAILED = 1
"""Exit code of a pod that cannot go on by its own fault, such as that of the user's code."""

EXIT_COORDINATOR_LOST = 75
"""Exit code of a pod whose coordinator is gone; EX_TEMPFAIL of sysexits.h: the pod is well."""

EXIT_COORDINATOR_FROZEN = 76
"""Exit code of a pod whose coordinator was frozen for too long."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """Identity and context of one pod; the launcher hands it over as a JSON file.

    Attributes:
        job: The job it belongs to.
        role: What it does.
        index: Number among the job's pods of that role, from 0.
        runtime_dir: Short-lived directory for sockets, removed with the job; short, because a Unix
            socket's path holds at most 107 bytes.
        work_dir: The job's directory, kept after the job ends: logs, specs.
        management_address: gRPC target of management's inner service.
        options: How its role does its work.
        nodes: Node of each pod of the job, by member name as in `chief-0`, and of `management`;
            who is not named runs on this one's node.
        node: The node that it was placed on; empty where there is only one.
        trace: Place in a trace below which the pod works (W3C `traceparent`); empty if it is not
            traced.
    """

    job: JobId
    role: Role
    index: int
    runtime_dir: Path
    work_dir: Path
    management_address: str
    options: PodOptions = field(default_factory=PodOptions)
    nodes: Mapping[str, str] = field(default_factory=dict)
    node: str = ""
    trace: str = ""

    def __post_init__(self) -> None:
        wanted = options_type(self.role, self.options.job_type)
        if type(self.options) is PodOptions:
            object.__setattr__(self, "options", for_role(self.role, self.options))
        elif type(self.options) is not wanted:
            raise InternalError(
                f"{self.name} has options of {type(self.options).__name__}, not {wanted.__name__}."
            )

    def options_of(self, kind: type[Options]) -> Options:
        """Return the options, which are of a role's own class.

        Raises:
            InternalError: They are of another one, as the pod has another role.
        """
        if not isinstance(self.options, kind):
            raise InternalError(f"{self.name} has no options of {kind.__name__}.")
        return self.options

    @property
    def member(self) -> str:
        """The pod's name within its job, as in `chief-0`."""
        return member_name(self.role, self.index)

    def is_elsewhere(self, member: str) -> bool:
        """Whether another pod of the job runs on another node."""
        own = self.nodes.get(self.member)
        return self.nodes.get(member, own) != own

    @property
    def is_networked(self) -> bool:
        """Whether the pods of the job and management are on more than one node."""
        return len(set(self.nodes.values())) > 1

    @property
    def name(self) -> PodName:
        """The pod's name, as in `wsjob-...-chief-0`."""
        return pod_name(self.job, self.role, self.index)

    @property
    def log_path(self) -> Path:
        """The file that takes the pod's standard output and error."""
        return self.work_dir / "logs" / f"{self.role.value}-{self.index}.log"

    def at(self, address: str, public_host: str = "") -> "PodSpec":
        """Return the spec of the pod on a node with an address of its own.

        Args:
            address: Where the pods of other nodes reach it; empty changes nothing.
            public_host: What clients call the node, if it is a coordinator; empty: its address.
        """
        if not address:
            return self
        return replace(self, options=self.options.at(address, public_host))

    @property
    def job_key_metadata(self) -> tuple[tuple[str, str], ...]:
        """Metadata of gRPC that shows management that the pod knows its job's key."""
        return ((JOB_KEY_METADATA, self.options.stream_key),)

    def control_address(self) -> str:
        """Return the gRPC target of this pod's own inner service, for whoever is on its node."""
        return control_address(self.runtime_dir, self.role, self.index)

    def to_json(self) -> str:
        """Return the JSON text of the spec."""
        fields = asdict(self)
        fields["runtime_dir"], fields["work_dir"] = str(self.runtime_dir), str(self.work_dir)
        fields["options"] = write_options(self.options)
        fields[_NODES_KEY] = fields.pop("nodes")
        return json.dumps(fields, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "PodSpec":
        """Return the spec written by `to_json`."""
        fields = json.loads(text)
        fields["job"] = JobId(fields["job"])
        fields["role"] = Role(fields["role"])
        fields["options"] = read_options(fields["role"], fields["options"])
        fields["nodes"] = fields.pop(_NODES_KEY)
        fields["runtime_dir"] = Path(fields["runtime_dir"])
        fields["work_dir"] = Path(fields["work_dir"])
        return cls(**fields)


def member_name(role: Role, index: int) -> str:
    """Return a pod's name within its job, as in `chief-0`."""
    return f"{role}-{index}"


def control_address(runtime_dir: Path, role: Role, index: int) -> str:
    """Return the gRPC target of a pod's inner service: a Unix socket in the runtime directory."""
    return f"unix:{runtime_dir}/{role.value}-{index}.sock"


def stream_address(runtime_dir: Path, session: int, stream: str) -> str:
    """Return where the writer of a tensor stream listens, as in `/run/.../3-broadcast.stream`."""
    return f"{runtime_dir}/{session}-{stream}.stream"
