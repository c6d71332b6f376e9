"""What a pod is told when it is launched, and where its sockets are."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from appliance.core.ids import JobId, PodName, Role, pod_name

JOB_KEY_METADATA = "wsc-job-key"
"""gRPC metadata by which a coordinator shows management that it knows its job's key."""

MACHINE_CODE_OPTION = "machine_code"
"""Option of pods that compute: directory of machine code that pods before them have compiled."""

MANAGEMENT = "management"
"""How `PodSpec.hosts` calls management."""

HOST_OPTION = "stream_host"
"""Option of every pod with the address at which it listens for, and is reached by, other hosts."""

CLIENT_CONFIG_OPTION = "client_config"
"""Option of a driver with the client's configuration file, for scripts that do not name one."""

DEVICE_OPTION = "device"
"""Option of a system with the `Device` that it computes on."""

FAN_OUT_OPTION = "fan_out"
"""Option of a coordinator with the children that a SwarmX pod of its job has at most."""

THREADS_OPTION = "torch_threads"
"""Option of a pod with its threads for computing: its share of its node's cores."""

SYSTEMS_OPTION = "systems"
"""Option of an SDK job's pod with the names of the systems that the job holds, joined by commas."""

MEMORY_OPTION = "pod_memory_bytes"
"""Option of a pod with the memory that it counts for on its node; absent for none."""

EXIT_COORDINATOR_LOST = 75
"""Exit code of a pod whose coordinator is gone; EX_TEMPFAIL of sysexits.h: the pod is well."""

EXIT_COORDINATOR_FROZEN = 76
"""Exit code of a pod whose coordinator was frozen for too long."""


class Device(StrEnum):
    """What a simulated system computes on."""

    CPU = "cpu"
    CUDA = "cuda"


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
        options: What only this role needs, as strings (documented at the role's `__main__`).
        hosts: Host of each pod of the job, by member name as in `chief-0`, and of `management`; who
            is not named runs on this one's host.
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
    options: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    node: str = ""
    trace: str = ""

    @property
    def member(self) -> str:
        """The pod's name within its job, as in `chief-0`."""
        return member_name(self.role, self.index)

    def is_elsewhere(self, member: str) -> bool:
        """Whether another pod of the job runs on another host."""
        own = self.hosts.get(self.member)
        return self.hosts.get(member, own) != own

    @property
    def is_networked(self) -> bool:
        """Whether the pods of the job and management are on more than one host."""
        return len(set(self.hosts.values())) > 1

    @property
    def name(self) -> PodName:
        """The pod's name, as in `wsjob-...-chief-0`."""
        return pod_name(self.job, self.role, self.index)

    @property
    def log_path(self) -> Path:
        """The file that takes the pod's standard output and error."""
        return self.work_dir / "logs" / f"{self.role.value}-{self.index}.log"

    def at(self, address: str, public_host: str = "") -> "PodSpec":
        """Return the spec of the pod on a host with an address of its own.

        Args:
            address: Where the pods of other hosts reach it; empty changes nothing.
            public_host: What clients call the host, if it is a coordinator; empty: its address.
        """
        if not address:
            return self
        options = {**self.options, HOST_OPTION: address}
        if self.role is Role.COORDINATOR:
            options |= {"bind_host": address, "public_host": public_host or address}
        return replace(self, options=options)

    def control_address(self) -> str:
        """Return the gRPC target of this pod's own inner service, for whoever is on its host."""
        return control_address(self.runtime_dir, self.role, self.index)

    def to_json(self) -> str:
        """Return the JSON text of the spec."""
        fields = asdict(self)
        fields["runtime_dir"], fields["work_dir"] = str(self.runtime_dir), str(self.work_dir)
        return json.dumps(fields, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "PodSpec":
        """Return the spec written by `to_json`."""
        fields = json.loads(text)
        fields["job"] = JobId(fields["job"])
        fields["role"] = Role(fields["role"])
        fields["runtime_dir"] = Path(fields["runtime_dir"])
        fields["work_dir"] = Path(fields["work_dir"])
        return cls(**fields)


def member_name(role: Role, index: int) -> str:
    """Return a pod's name within its job, as in `chief-0`."""
    return f"{role.value}-{index}"


def control_address(runtime_dir: Path, role: Role, index: int) -> str:
    """Return the gRPC target of a pod's inner service: a Unix socket in the runtime directory."""
    return f"unix:{runtime_dir}/{role.value}-{index}.sock"


def stream_address(runtime_dir: Path, session: int, stream: str) -> str:
    """Return where the writer of a tensor stream listens, as in `/run/.../3-broadcast.stream`."""
    return f"{runtime_dir}/{session}-{stream}.stream"
