"""All settings of an appliance, and the checks of their combinations."""

from dataclasses import dataclass, field
from pathlib import Path

from appliance.cluster.kubernetes.options import parse_options
from appliance.coordinator.compile.artifacts import CompileCache
from appliance.core.errors import UserError
from appliance.management.options.setting_field import setting
from appliance.management.options.settings_by_group import (
    KUBERNETES,
    LOOPBACK,
    NETWORK_STREAMS,
    KeepingOptions,
    ListenOptions,
    NodeOptions,
    QueueOptions,
    RunOptions,
    TellingOptions,
    TrustOptions,
)

COMPILE_CACHE = "compile"
"""The compile cache in the data directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagementOptions:
    """How an appliance is set up.

    Attributes:
        data_dir: Directory of the database, jobs, logs, compile cache and certificates.
        runtime_root: Short-lived directory for sockets.
        num_systems: Simulated CS-2 systems, on this machine as their one node; None keeps the
            cluster that the data directory has, or makes one system.
        cluster: YAML text that describes the cluster (see `cluster_file`); or empty.
        listen: Where it listens.
        trust: How callers and the appliance prove who they are.
        runs: How jobs are run.
        queue: How they wait.
        nodes: Where their pods run.
        keeping: What is kept, where and for how long.
        telling: Who is told of jobs.
    """

    data_dir: Path
    runtime_root: Path
    num_systems: int | None = setting(
        None, "Simulated CS-2 systems on this machine.", flag="--systems", shown="as before, or 1"
    )
    cluster: str = setting("", "YAML file that describes the cluster.", is_file=True)
    listen: ListenOptions = field(default_factory=ListenOptions)
    trust: TrustOptions = field(default_factory=TrustOptions)
    runs: RunOptions = field(default_factory=RunOptions)
    queue: QueueOptions = field(default_factory=QueueOptions)
    nodes: NodeOptions = field(default_factory=NodeOptions)
    keeping: KeepingOptions = field(default_factory=KeepingOptions)
    telling: TellingOptions = field(default_factory=TellingOptions)

    def __post_init__(self) -> None:
        if self.cluster and self.num_systems is not None:
            raise UserError(
                f"Both a cluster file and {self.num_systems} systems are given.",
                hint="The file says how many systems there are.",
            )
        if self.num_systems is not None and self.num_systems < 1:
            raise UserError(f"An appliance of {self.num_systems} systems cannot run any job.")
        self._check_who_listens_in()
        if self.nodes.launcher == KUBERNETES:
            self._check_kubernetes()

    def _check_who_listens_in(self) -> None:
        listen, trust = self.listen, self.trust
        if listen.host not in LOOPBACK and not (trust.has_tls and trust.needs_token):
            raise UserError(
                f"Host {listen.host!r} is off loopback, where callers must prove who they are and "
                "nobody may listen in.",
                hint="Add --tls and --tokens, or listen at localhost.",
            )
        if trust.needs_token and not trust.has_tls:
            raise UserError(
                f"Tokens are asked for at {listen.host} port {listen.port}, and plain text is to "
                "be talked: whoever gets that port while the appliance is down could collect them.",
                hint="Add --tls.",
            )

    def _check_kubernetes(self) -> None:
        parse_options(self.nodes.kubernetes, source="The Kubernetes settings")
        if self.runs.streams not in NETWORK_STREAMS:
            raise UserError(
                f"Streams of kind {self.runs.streams} stay on one machine; the pods of a "
                "Kubernetes cluster do not.",
                hint=f"Choose one of {', '.join(NETWORK_STREAMS)}.",
            )

    @property
    def compile_cache(self) -> CompileCache:
        """The compile cache; split where programs of users run in pods that may write it."""
        return CompileCache(
            root=self.data_dir / COMPILE_CACHE, is_split=bool(self.nodes.kubernetes)
        )

    @property
    def config_path(self) -> Path:
        """The client's configuration file."""
        return self.data_dir / "config_v2"

    @property
    def rest_socket(self) -> Path:
        """Where REST is served behind clients' one port."""
        return self.runtime_root / "rest.sock"
