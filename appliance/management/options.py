"""How an appliance is set up, and which settings go together."""

import math
import os
from dataclasses import dataclass, field
from pathlib import Path

from appliance.cluster.kubernetes.options import parse_options
from appliance.core.cluster.identity import ROOT
from appliance.core.cluster.pods import Device
from appliance.core.errors import UserError
from appliance.core.plans.plan import Execution
from appliance.management.cluster.inventory import this_node
from appliance.management.logs.log_retention import LogLimits
from appliance.management.store.disk import RESERVE_BYTES
from appliance.streams.topology import StreamMode
from appliance.wafer.machine import CS2, parse_machine
from appliance.wire.executions import parse_execution

PROCESSES, AGENTS, KUBERNETES = LAUNCHERS = "processes", "agents", "kubernetes"
"""Where pods run; see `ManagementOptions.launcher`."""

NETWORK_STREAMS = ("network", "network-tls")
"""Kinds of streams that cross TCP even on one machine; see `ManagementOptions.streams`."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagementOptions:
    """How an appliance is set up.

    Attributes:
        data_dir: Directory of the database, jobs, logs, compile cache and certificates.
        runtime_root: Short-lived directory for sockets.
        host: Name or address to listen at; off loopback only with `has_tls` and `needs_token`.
        public_name: Name or address that clients are told; empty derives it from `host`.
        port: Port for gRPC; 0 for any free one.
        public_port: Port that clients are told, where something else passes them on; 0 for `port`.
        rest_port: Port for REST; 0 for any free one.
        num_systems: Simulated CS-2 systems, on this machine as their one node; None keeps the
            cluster that the data directory has, or makes one system.
        cluster: YAML text that describes the cluster (see `cluster_file`); or empty.
        has_tls: Whether clients talk TLS. They then need `port` alone: it leads to management, to
            every coordinator and to REST.
        certificates: Directory with `ca.crt`, `tls.crt` and `tls.key`; empty lets the appliance
            make its own.
        needs_token: Whether every call must carry a token that this appliance minted; with
            `has_tls` alone, on loopback too: who gets the port of a stopped appliance could
            collect the tokens of its users.
        serves_local_users: Whether, without tokens, every user of this machine is served, as whom
            the kernel says; else only who runs the appliance, and root. As root alone, because each
            user's programs then run as that user.
        precision: `f32` (16-bit types carried in float32, the default, fast) or `exact` (every
            16-bit result rounded to the program's format).
        wafer_bytes: Memory for activations that a program may use of each system; a share of the
            batch that needs more is computed in micro-batches. 0 sets no limit.
        execution: How the wafer is used unless a job's label `wsc.execution` says it:
            `weight-streaming`, which the client takes for granted, `pipelined`, which refuses what
            does not fit, or `auto`, pipelined where a program fits on one wafer.
        lease_seconds: How long a job lives without a sign of its client, which beats every 10
            seconds; 30 survives two lost beats.
        orphan_seconds: How long running jobs go on without management, as between a crash and a new
            start; clients wait about as long.
        history_days: Jobs that ended longer ago are forgotten, with their logs; 0 keeps all.
        otlp: Root URL of an OTLP receiver for traces (`http://localhost:4318`); empty for none.
        notify: File that says how people are told of their jobs (see `messengers`); empty for none
            but those whom requests name. A path, since what it holds is secret.
        log_limits: How much is kept of what pods print.
        database: SQLAlchemy URL of a PostgreSQL database; empty keeps all in SQLite.
        disk_reserve_bytes: What must be free on the disk of the data directory, at most a twentieth
            of it, for jobs to be started; 0 sets no limit.
        allows_preemption: Whether a blocked job may stop jobs of a lower priority bucket that say
            that they can go on from a checkpoint.
        machine: Machine whose times are simulated: a name, or a table of one's own as JSON.
        pace: Wall seconds per simulated second that a run is held to; 0, the default, lets it go as
            fast as it can.
        stall_seconds: Longest wait of a system for one batch before its job fails. The default is
            what the real cluster gives a job that does not move.
        streams: How weights reach the systems: `ring` (the default) copies them once into a ring
            that all systems read, `mapped` lets every system read MemoryX's own memory. With
            `network` every pod counts as a host of its own and all its streams cross TCP on
            loopback; `network-tls` encrypts them.
        csx_device: What systems compute on: `cpu` (the default), or `cuda`, the devices of the host
            of each, among which its systems are dealt out.
        memoryx_bytes: Memory that MemoryX of a job may use on a node, all its weight pods there
            together; tensors that take most of it are kept in a file in the data directory and
            paged in and out. 0, the default, means what the machine or the control group has.
        launcher: `processes` runs every pod on this machine; `agents` on the nodes whose agents
            join.
        node_port: Port at which agents join; 0 for any free one. A management that takes the place
            of one that was killed has the ports of that one, here as with the others.
        node_grace_seconds: How long a node may be away before its jobs fail; a restarted management
            waits so long for those that had pods.
        inner_host: Name or address of this host for pods on other hosts; an address is listened at,
            a name means all of this host's. Empty, the default: all pods are on this host.
        inner_port: Port for them; 0 for any free one.
        entry_modules: Other role modules than the built-in ones; for tests.
        preload: Modules that the fork server imports before the first fork.
        kubernetes: YAML text of `KubernetesOptions`: pods are a Kubernetes cluster's; or empty.
    """

    data_dir: Path
    runtime_root: Path
    host: str = "localhost"
    public_name: str = ""
    port: int = 9000
    public_port: int = 0
    rest_port: int = 9001
    num_systems: int | None = None
    cluster: str = ""
    has_tls: bool = False
    certificates: str = ""
    needs_token: bool = False
    serves_local_users: bool = False
    precision: str = "f32"
    wafer_bytes: int = 0
    execution: str = Execution.WEIGHT_STREAMING.value
    lease_seconds: int = 30
    orphan_seconds: float = 120.0
    history_days: float = 365.0
    otlp: str = ""
    notify: str = ""
    log_limits: LogLimits = field(default_factory=LogLimits)
    database: str = ""
    disk_reserve_bytes: int = RESERVE_BYTES
    allows_preemption: bool = False
    machine: str = CS2.name
    pace: float = 0.0
    stall_seconds: float = 630.0
    streams: str = StreamMode.RING.value
    csx_device: str = Device.CPU.value
    memoryx_bytes: int = 0
    launcher: str = PROCESSES
    node_port: int = 9002
    node_grace_seconds: float = 20.0
    inner_host: str = ""
    inner_port: int = 9003
    entry_modules: tuple[tuple[str, str], ...] = ()
    preload: tuple[str, ...] = ("torch", "numpy", "grpc")
    kubernetes: str = ""

    def __post_init__(self) -> None:
        if self.cluster and self.num_systems is not None:
            raise UserError(
                f"Both a cluster file and {self.num_systems} systems are given.",
                hint="The file says how many systems there are.",
            )
        if self.num_systems is not None and self.num_systems < 1:
            raise UserError(f"An appliance of {self.num_systems} systems cannot run any job.")
        if self.precision not in ("f32", "exact"):
            raise UserError(f"There is no precision {self.precision!r}; it is f32 or exact.")
        kinds = (*StreamMode, *NETWORK_STREAMS)
        if self.streams not in kinds:
            raise UserError(
                f"There are no streams of kind {self.streams!r}; it is one of {', '.join(kinds)}."
            )
        if self.csx_device not in tuple(Device):
            raise UserError(
                f"Systems cannot compute on {self.csx_device!r}; it is one of {', '.join(Device)}."
            )
        self._check_launcher()
        parse_machine(self.machine)
        parse_execution(self.execution)
        if not 0 <= self.pace < math.inf:
            raise UserError(f"A pace of {self.pace} is not possible; it is 0 (none) or above.")
        if self.memoryx_bytes < 0:
            raise UserError(f"MemoryX cannot use {self.memoryx_bytes:,} bytes of memory.")
        if not self.stall_seconds > 0:
            raise UserError(f"A stall after {self.stall_seconds} seconds is not possible.")
        if self.lease_seconds < 1:
            raise UserError(f"A lease of {self.lease_seconds} seconds is too short.")
        self._check_doors()

    def _check_doors(self) -> None:
        if self.certificates and not self.has_tls:
            raise UserError(
                f"Certificates are given in {self.certificates}, and plain text is to be talked.",
                hint="Add --tls.",
            )
        if self.serves_local_users and (self.needs_token or os.getuid() != ROOT):
            raise UserError(
                "Users of this machine are served without tokens by an appliance of root alone, "
                "which runs each one's programs as that user.",
                hint="Use --tls --tokens, or leave out --local-users.",
            )
        if self.host not in LOOPBACK and not (self.has_tls and self.needs_token):
            raise UserError(
                f"Host {self.host!r} is off loopback, where callers must prove who they are and "
                "nobody may listen in.",
                hint="Add --tls and --tokens, or listen at localhost.",
            )
        if self.needs_token and not self.has_tls:
            raise UserError(
                f"Tokens are asked for at {self.host} port {self.port}, and plain text is to be "
                "talked: whoever gets that port while the appliance is down could collect them.",
                hint="Add --tls.",
            )

    def _check_launcher(self) -> None:
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
        if self.launcher == KUBERNETES:
            self._check_kubernetes()

    def _check_kubernetes(self) -> None:
        parse_options(self.kubernetes, source="The Kubernetes settings")
        if self.streams not in NETWORK_STREAMS:
            raise UserError(
                f"Streams of kind {self.streams} stay on one machine; the pods of a Kubernetes "
                "cluster do not.",
                hint=f"Choose one of {', '.join(NETWORK_STREAMS)}.",
            )

    @property
    def compile_root(self) -> Path:
        """Directory of the compile cache."""
        return self.data_dir / "compile"

    @property
    def bind_host(self) -> str:
        """Address to bind to: the name localhost means IPv4 loopback."""
        return "127.0.0.1" if self.host == "localhost" else self.host

    @property
    def public_host(self) -> str:
        """Name that clients are told.

        It is localhost for every loopback address, because the client checks other names with ping
        and curl; and this machine's own name when listening at all addresses.
        """
        if self.public_name:
            return self.public_name
        if self.host in LOOPBACK:
            return "localhost"
        return this_node().name if self.host in ("0.0.0.0", "::") else self.host
