"""The settings of an appliance, by subject; each default is defined here and nowhere else."""

import math
import os
import platform
from dataclasses import dataclass
from ipaddress import ip_network

from appliance.core.addresses import bare_host, is_ipv6
from appliance.core.cluster.identity import ROOT
from appliance.core.cluster.liveness import DEFAULT_STALL_SECONDS
from appliance.core.errors import UserError
from appliance.core.plans.plan import Execution, Precision
from appliance.core.plans.shard_count import TENSOR_SHARE
from appliance.core.pods.pod_options import Device, StreamMode
from appliance.management.options.setting_field import setting
from appliance.wafer.hardware import Machine, parse_machine
from appliance.wafer.timing.sample_memory import free_bytes
from appliance.wire.networks import Network
from appliance.wire.requests.executions import parse_execution

PROCESSES, AGENTS, KUBERNETES = LAUNCHERS = "processes", "agents", "kubernetes"
"""Where pods run; see `NodeOptions.launcher`."""

NETWORK_STREAMS = ("network", "network-tls")
"""Kinds of streams that cross TCP even on one machine; see `RunOptions.streams`."""

MEASURED, BY_RULE = KERNEL_CHOICES = "measured", "rule"
"""How it is decided by which library systems compute; see `RunOptions.kernels`."""


LOOPBACK = ("localhost", "127.0.0.1", "::1")

DAY_SECONDS = 86_400.0
_GIB, _MIB = 1 << 30, 1 << 20


_MAX_PORT = 65_535


def _check_ports(**ports: int) -> None:
    """Raise `UserError` for a number that no port has, by the flag that gave it."""
    for name, port in ports.items():
        if not 0 <= port <= _MAX_PORT:
            raise UserError(
                f"--{name.replace('_', '-')} {port} is no port; ports are 0 to {_MAX_PORT:,}.",
                hint="Give another one, or 0 for any free one.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """Where the appliance listens."""

    host: str = setting(
        "localhost",
        "Name or address to listen at, :: for all; off loopback only with TLS and tokens.",
    )
    port: int = setting(9000, "Port for clients; 0 for any free one.")
    rest_port: int = setting(9001, "Port for REST; 0 for any free one.")
    public_name: str = setting(
        "", "Name or address of the appliance that clients are told.", shown="from --host"
    )
    public_port: int = setting(
        0, "Port that clients are told, where a proxy passes them on; 0: that of --port."
    )

    def __post_init__(self) -> None:
        _check_ports(port=self.port, rest_port=self.rest_port, public_port=self.public_port)
        object.__setattr__(self, "host", bare_host(self.host))
        object.__setattr__(self, "public_name", bare_host(self.public_name))
        if is_ipv6(self.public_host):
            raise UserError(
                f"Clients would be told {self.public_host}, and they take a name or an IPv4 "
                "address, no IPv6 address.",
                hint="Say with --public-name by which name they reach the appliance.",
            )

    @property
    def bind_host(self) -> str:
        """Address to bind to: the name localhost means IPv4 loopback."""
        return "127.0.0.1" if self.host == "localhost" else self.host

    @property
    def public_host(self) -> str:
        """Public name of the appliance, announced to clients.

        It is localhost for every loopback address, because the client checks other names with ping
        and curl; and this machine's own name when listening at all addresses.
        """
        if self.public_name:
            return self.public_name
        if self.host in LOOPBACK:
            return "localhost"
        is_everywhere = self.host in ("0.0.0.0", "::")
        return platform.node() or "localhost" if is_everywhere else self.host


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustOptions:
    """How callers and the appliance prove who they are."""

    has_tls: bool = setting(
        False,
        "Use TLS, on one port for everything that clients need: management, every coordinator "
        "and REST.",
        flag="--tls",
    )
    certificates: str = setting(
        "",
        "Directory with ca.crt, tls.crt and tls.key; needs --tls.",
        shown="our own",
        is_file=True,
    )
    needs_token: bool = setting(
        False,
        "Require a token of `appliance token` with every call; needs --tls, on loopback too, or"
        " a program that takes the port of a stopped appliance could collect tokens.",
        flag="--tokens",
    )
    serves_local_users: bool = setting(
        False,
        "Without tokens, as root: serve every user of this machine, identified by the kernel; "
        "programs of each run as that user. Else only the user that runs the appliance, and "
        "root, are served.",
        flag="--local-users",
    )
    trusted_proxies: str = setting(
        "",
        "Networks of proxies whose X-Forwarded-For (REST) and PROXY protocol (--port) are "
        "believed: where callers are, never who; as 10.0.0.0/8,192.0.2.7; needs --tokens.",
        flag="--trusted-proxy",
        shown="none",
    )
    oidc: str = setting(
        "",
        "YAML file: OpenID Connect provider for logins beside tokens; needs --tokens.",
        shown="WSC_OIDC, or none",
        is_file=True,
    )

    def __post_init__(self) -> None:
        if self.proxies and not self.needs_token:
            raise UserError(
                f"Callers behind the proxies of {self.trusted_proxies} would be nobody: without "
                "tokens the kernel says who calls, and it does not know them.",
                hint="Add --tls --tokens.",
            )
        if self.oidc and not self.needs_token:
            raise UserError(
                f"--oidc {self.oidc} needs --tokens: without tokens nobody logs in.",
                hint="Add --tls --tokens.",
            )
        if self.certificates and not self.has_tls:
            raise UserError(
                f"--certificates {self.certificates} needs --tls: nothing else uses certificates.",
                hint="Add --tls.",
            )
        if self.serves_local_users and (self.needs_token or os.getuid() != ROOT):
            raise UserError(
                "Users of this machine are served without tokens by an appliance of root alone, "
                "which runs each one's programs as that user.",
                hint="Use --tls --tokens, or leave out --local-users.",
            )

    @property
    def proxies(self) -> tuple[Network, ...]:
        """Networks of proxies that are trusted; raises `UserError` for what is no network."""
        texts = [each.strip() for each in self.trusted_proxies.split(",") if each.strip()]
        try:
            return tuple(ip_network(each) for each in texts)
        except ValueError as error:
            raise UserError(
                f"--trusted-proxy {self.trusted_proxies!r} is no list of networks: {error}.",
                hint="Write them as 10.0.0.0/8,192.0.2.7.",
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How jobs are executed: the settings that are passed on to pods."""

    precision: str = setting(
        Precision.F32.value,
        "f32 (16-bit types are carried in float32: fast) or exact (every 16-bit result is "
        "rounded to the program's format).",
    )
    machine: str = setting(
        "cs2",
        "What each system is, whose times are simulated: cs2, cs3, or a YAML file with a table.",
    )
    pace: float = setting(0.0, "Wall seconds per simulated second to slow runs down to; 0: off.")
    execution: str = setting(
        Execution.WEIGHT_STREAMING.value,
        "How the wafer is used unless a job's label wsc.execution says it: weight-streaming, "
        "pipelined (refuses a program that does not fit on one wafer), or auto (pipelined where"
        " a program fits).",
    )
    streams: str = setting(
        StreamMode.MAPPED.value,
        "How weights reach systems on MemoryX's machine: mapped (systems read MemoryX's own "
        "memory), ring (copied once into a ring that all systems read), network (every pod "
        "counts as a node of its own, and all its streams cross TCP on loopback) or network-tls"
        " (the same, encrypted).",
    )
    csx_device: str = setting(
        Device.CPU.value,
        "What systems compute on: cpu, or cuda, the devices of the host of each, which its "
        "systems share out.",
    )
    memoryx_gib: float = setting(
        0.0,
        "GiB of memory that MemoryX of a job may use on a node, all its weight pods there "
        f"together; tensors that need more than {TENSOR_SHARE:g} of it are kept in a file in the "
        "data directory. 0: the memory of the control group or the machine.",
    )
    keep_weights_gib: float = setting(
        2.0,
        "GiB of the forward pass's weights that a system keeps for the backward pass where it "
        "gets them from another node; the rest is sent twice a step. 0: none.",
    )
    kernels: str = setting(
        MEASURED,
        "By which library systems compute an operation that several can compute: measured (each"
        " is timed once on a kind of machine) or rule (by the processor alone).",
    )
    stall_seconds: float = setting(
        DEFAULT_STALL_SECONDS, "How long a system may wait for one batch before its job fails."
    )

    def __post_init__(self) -> None:
        if self.precision not in tuple(Precision):
            raise UserError(
                f"There is no precision {self.precision!r}; it is {' or '.join(Precision)}."
            )
        kinds = (*StreamMode, *NETWORK_STREAMS)
        if self.streams not in kinds:
            raise UserError(
                f"There are no streams of kind {self.streams!r}; it is one of {', '.join(kinds)}."
            )
        if self.csx_device not in tuple(Device):
            raise UserError(
                f"Systems cannot compute on {self.csx_device!r}; it is one of {', '.join(Device)}."
            )
        if self.kernels not in KERNEL_CHOICES:
            raise UserError(
                f"Kernels cannot be {self.kernels!r}; it is {' or '.join(KERNEL_CHOICES)}."
            )
        parse_machine(self.machine)
        parse_execution(self.execution)
        if not 0 <= self.pace < math.inf:
            raise UserError(f"A pace of {self.pace} is not possible; it is 0 (none) or above.")
        if not 0 <= self.keep_weights_gib < math.inf:
            raise UserError(f"A system cannot keep {self.keep_weights_gib:g} GiB of weights.")
        if self.memoryx_gib < 0:
            raise UserError(f"MemoryX cannot use {self.memoryx_bytes:,} bytes of memory.")
        if not self.stall_seconds > 0:
            raise UserError(f"A stall after {self.stall_seconds} seconds is not possible.")

    @property
    def memoryx_bytes(self) -> int:
        """Memory that MemoryX of a job may use on a node; 0: all of it."""
        return int(self.memoryx_gib * _GIB)

    @property
    def simulated_machine(self) -> Machine:
        """The machine whose times are simulated."""
        return parse_machine(self.machine)

    @property
    def wafer_bytes(self) -> int:
        """Memory for activations of one system; a share of a batch that needs more is split."""
        return free_bytes(self.simulated_machine)

    @property
    def keep_weight_bytes(self) -> int:
        """What each system may keep of the weights, in bytes."""
        return int(self.keep_weights_gib * _GIB)

    @property
    def measures_kernels(self) -> bool:
        """Whether libraries are timed, rather than chosen by rule."""
        return self.kernels == MEASURED

    @property
    def has_network(self) -> bool:
        """Whether every pod counts as a node of its own, so that all streams cross the network."""
        return self.streams in NETWORK_STREAMS


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """How jobs wait, and for how long they live unattended."""

    lease_seconds: int = setting(
        30,
        "How long a job lives without a heartbeat of its client, which sends one every 10 seconds.",
    )
    orphan_seconds: float = setting(
        120.0,
        "How long running jobs continue while management is down; clients wait about as long.",
    )
    allows_preemption: bool = setting(
        False,
        "Let a blocked job stop jobs of a lower priority bucket that can go on from a checkpoint.",
        flag="--preemption",
    )
    max_drivers: int = setting(
        64,
        "Unfinished detached runs that one user may have; each is a process of some hundred "
        "megabytes.",
    )

    def __post_init__(self) -> None:
        if self.max_drivers < 1:
            raise UserError(f"Users may have {self.max_drivers} detached runs; give 1 or more.")
        if self.lease_seconds < 1:
            raise UserError(f"A lease of {self.lease_seconds} seconds is too short.")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """Where pods run."""

    launcher: str = setting(
        PROCESSES,
        "Where pods run: processes (on this machine), agents (on nodes whose agents join) or "
        "kubernetes.",
    )
    inner_host: str = setting(
        "",
        "Name or address of this machine for pods on other nodes. At an address only that one "
        "is listened at, for a name all of this machine's.",
        shown="none",
    )
    inner_port: int = setting(9003, "Port for pods on other nodes; 0 for any free one.")
    node_port: int = setting(9002, "Port at which agents join; 0 for any free one.")
    node_grace_seconds: float = setting(
        20.0,
        "How long a node may be away before its jobs fail; a restarted management waits as long"
        " for nodes that had pods.",
    )
    kubernetes: str = setting(
        "", "YAML file that describes the cluster for --launcher kubernetes.", is_file=True
    )

    def __post_init__(self) -> None:
        _check_ports(inner_port=self.inner_port, node_port=self.node_port)
        object.__setattr__(self, "inner_host", bare_host(self.inner_host))
        if self.launcher not in LAUNCHERS:
            raise UserError(
                f"There is no launcher {self.launcher!r}; it is one of {', '.join(LAUNCHERS)}."
            )
        if self.launcher != PROCESSES and not self.inner_host:
            raise UserError(
                "Pods elsewhere have to reach management, and no address is given.",
                hint="Say with --inner-host by which name or address they do.",
            )
        if (self.launcher == KUBERNETES) != bool(self.kubernetes):
            raise UserError(
                "Pods on a Kubernetes cluster need its settings, and nothing else does.",
                hint="Give --launcher kubernetes and --kubernetes FILE together.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepingOptions:
    """Storage and retention of state, logs and jobs."""

    history_days: float = setting(
        365.0, "Forget jobs that ended longer ago, with their logs; 0 keeps all."
    )
    log_days: float = setting(
        90.0, "Remove logs of ended jobs that were last written longer ago; 0 keeps all."
    )
    log_gib: float = setting(
        50.0, "GiB of logs of ended jobs; the oldest beyond it are removed; 0 keeps all."
    )
    pod_log_mib: float = setting(
        256.0, "MiB of a running pod's log; its oldest lines beyond it are dropped; 0 keeps all."
    )
    disk_reserve_mib: float = setting(
        512.0,
        "MiB that must be free in the data directory, at most a twentieth of its disk, for jobs"
        " to start; 0 sets no limit.",
    )
    database: str = setting(
        "",
        "postgresql+psycopg://... to use instead of SQLite; without a password.",
        shown="WSC_DATABASE, or none",
    )

    def __post_init__(self) -> None:
        if min(self.log_days, self.log_gib, self.pod_log_mib) < 0:
            raise UserError(
                f"Logs cannot be limited to {self.pod_log_mib:g} MiB a pod, {self.log_gib:g} GiB "
                f"altogether and {self.log_days:g} days; 0 sets no limit."
            )
        if self.disk_reserve_mib < 0:
            raise UserError(f"A disk cannot have {self.disk_reserve_mib:g} MiB kept free.")

    @property
    def history_seconds(self) -> float | None:
        """How long jobs that have ended are known; None for ever."""
        return self.history_days * DAY_SECONDS or None

    @property
    def disk_reserve_bytes(self) -> int:
        """What must be free on the disk of the data directory."""
        return int(self.disk_reserve_mib * _MIB)

    @property
    def pod_log_bytes(self) -> int:
        """Maximum size of a running pod's log."""
        return int(self.pod_log_mib * _MIB)

    @property
    def log_bytes(self) -> int:
        """Maximum size of all logs of ended jobs."""
        return int(self.log_gib * _GIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class TellingOptions:
    """Notifications and traces of jobs."""

    notify: str = setting(
        "",
        "YAML file: mail server, and targets told of every job (docs/notifications.md).",
        shown="WSC_NOTIFY, or none",
        is_file=True,
    )
    otlp: str = setting(
        "",
        "Send traces to this OTLP receiver over HTTP, as http://localhost:4318.",
        shown="OTEL_EXPORTER_OTLP_ENDPOINT, or none",
    )
