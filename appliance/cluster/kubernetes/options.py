"""What the appliance has to know of the Kubernetes cluster that runs its pods.

A YAML file with the fields of `KubernetesOptions`; `helm/wsc-appliance` writes it:

    image: registry.example/wsc-appliance:0.1.0
    dataVolume: {claim: wsc-data, path: /data}
    userVolumes:
      - {name: home, path: /home, nfs: {server: nfs.example, path: /export/home}}
      - {name: sets, path: /datasets, claim: datasets, readOnly: true}
    nodeSelectors: {chief: {accelerator: cs2}}
    resources: {chief: {cpu: "4", memory: 8Gi}}
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

import yaml

from appliance.core.errors import UserError
from appliance.core.ids import Role

USER_ROLES = frozenset({Role.COORDINATOR, Role.ACTIVATION, Role.WORKER, Role.DRIVER})
"""Pods in which code of the user's runs, and which so see the user's volumes."""

_RESOURCE = re.compile(r"cpu|memory|ephemeral-storage|hugepages-.+|.+/.+")

INSTANCE_LABEL = "app.kubernetes.io/instance"
"""Label with the name of the release that an object belongs to."""

COMPONENT_LABEL = "app.kubernetes.io/component"
"""Label with what it is to the release."""

_EXAMPLE = "Its docstring in appliance/cluster/kubernetes/options.py has an example."


class OnDrain(StrEnum):
    """What becomes of a job when a node is drained on which it has pods, or one is taken away."""

    WAIT = "wait"
    """A disruption budget of the chart's lets drains wait; a pod that goes anyway fails its job."""
    FAIL = "fail"
    """The job fails."""
    REQUEUE = "requeue"
    """The job goes back into the queue if it can: see `management/reconciler/job_machine.py`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataVolume:
    """The volume that management and every pod share; it must allow many writers.

    Attributes:
        claim: Name of its PersistentVolumeClaim.
        path: Where management has it; the data directory is there or below.
    """

    claim: str
    path: PurePosixPath


@dataclass(frozen=True, slots=True, kw_only=True)
class UserVolume:
    """A volume with the users' own files: scripts, data sets, Python environments.

    Attributes:
        path: Where users know it, and so where pods have it.
        claim: Name of a PersistentVolumeClaim; empty for NFS.
        nfs_server: NFS server; empty for a claim.
        nfs_path: What the server exports.
        is_read_only: Whether pods may only read.
    """

    name: str
    path: PurePosixPath
    claim: str = ""
    nfs_server: str = ""
    nfs_path: str = ""
    is_read_only: bool = False

    def __post_init__(self) -> None:
        if bool(self.claim) == bool(self.nfs_server):
            raise UserError(f"User volume {self.name!r} needs a claim, or nfs, and not both.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNamespace:
    """A namespace of its own for all that the jobs of one session have.

    Attributes:
        data_claim: There, the claim of the file system that is management's data volume, too; empty
            for a claim of the same name.
        user_volumes: There, the users' own files; None for the same as elsewhere.
        kueue_queue: There, the LocalQueue of jobs whose wsjob names none; None for the same name.
    """

    namespace: str
    data_claim: str = ""
    user_volumes: Sequence[UserVolume] | None = None
    kueue_queue: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleOptions:
    """What pods of one role have beside, or in place of, what those of all roles have.

    Attributes:
        labels: Further labels.
        pod_annotations: Further annotations.
        scheduler_name: Their scheduler; empty for that of all.
        priority_class: Their PriorityClass; empty for that of all.
        affinity: Their affinity, in place of that of all; None leaves it.
        tolerations: Further taints that they bear.
        extra_env: Further environment variables.
        extra_volumes: Further volumes.
        extra_mounts: Where these are.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    scheduler_name: str = ""
    priority_class: str = ""
    affinity: Mapping[str, Any] | None = None
    tolerations: Sequence[Mapping[str, Any]] = ()
    extra_env: Sequence[Mapping[str, Any]] = ()
    extra_volumes: Sequence[Mapping[str, Any]] = ()
    extra_mounts: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOptions:
    """How pods are run on a Kubernetes cluster.

    Attributes:
        image: Image of the pods.
        user_image: Image of the pods in which code of the user's runs; empty for `image`.
        pull_policy: When images are pulled.
        pull_secrets: Names of secrets by which they are.
        data_volume: What management and pods share.
        user_volumes: The users' own files.
        user_path: Where the user image has the client and the system's programs, as in PATH.
        node_selectors: Labels of the nodes that pods of a role need, by role.
        tolerations: Taints that pods bear, as in a pod's spec.
        resources: Requests and limits of pods by role, unless their job says more.
        plan_memory: Whether pods ask for the memory that their plan needs.
        shared_memory: Limit of a pod's /dev/shm unless its memory has a limit, as a quantity.
        scheduler_name: Scheduler of pods; empty for the cluster's own.
        priority_class: PriorityClass of pods; empty for the cluster's own.
        affinity: Affinity of pods, as in a pod's spec.
        extra_env: Further environment variables of pods, as in a container's spec.
        extra_volumes: Further volumes of pods, as in a pod's spec.
        extra_mounts: Where these are, as in a container's spec.
        driver_secrets: Names of Secrets that drivers may have variables from.
        driver_config_maps: Names of config maps that they may.
        labels: Further labels of pods, for network policies and budgets; the release's among them
            is also that of what shows jobs and systems.
        pod_account: ServiceAccount of pods, which needs no rights; empty for the namespace's own.
        default_uid: Whom pods run as whose job names nobody, or root.
        group_id: Group that may write into the data volume.
        namespace: Where pods run; empty for management's own.
        placement_seconds: A job fails if not all of its pods have found a node by then.
        start_seconds: A job fails if a pod has not started so long after all have found a node.
        runtime_root: Where pods have their sockets, in a volume of their own.
        lease_name: Name of the lease by which management's replicas agree who leads.
        lease_seconds: A leader that has not been heard of for so long is replaced.
        is_alone: Whether no other management could lead: then this one goes on while the API server
            is away.
        standby_file: Where a management that waits for the lead says so to its container's
            probes; None says it nowhere.
        kept_seconds: A wsjob that nobody created with kubectl goes so long after its job's end.
        runtime_class: RuntimeClass of pods; empty for the cluster's own.
        scheduling_gates: Whether, where the server knows gates, the first pod of each role finds a
            node before the others look for one.
        kueue: Whether Kueue queues jobs before the appliance does.
        kueue_queue: LocalQueue of jobs whose wsjob names none; empty leaves these to the
            appliance's own queue.
        sessions: Sessions with a namespace of their own, by name; the jobs of all others are in
            `namespace`.
        roles: What pods of a role have of their own, by role.
        on_drain: What becomes of a job when a pod of it is taken away.
        tell_unmapped: Whether wsjobs in namespaces that are no session's are told so in an event.
    """

    image: str
    data_volume: DataVolume
    user_image: str = ""
    pull_policy: str = "IfNotPresent"
    pull_secrets: Sequence[str] = ()
    user_volumes: Sequence[UserVolume] = ()
    user_path: str = "/opt/client/bin:/usr/local/bin:/usr/bin:/bin"
    node_selectors: Mapping[Role, Mapping[str, str]] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    resources: Mapping[Role, Mapping[str, str]] = field(default_factory=dict)
    plan_memory: bool = True
    shared_memory: str = "32Gi"
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    scheduler_name: str = ""
    priority_class: str = ""
    affinity: Mapping[str, Any] = field(default_factory=dict)
    extra_env: Sequence[Mapping[str, Any]] = ()
    extra_volumes: Sequence[Mapping[str, Any]] = ()
    extra_mounts: Sequence[Mapping[str, Any]] = ()
    driver_secrets: Sequence[str] = ()
    driver_config_maps: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    pod_account: str = ""
    default_uid: int = 65532
    group_id: int = 65532
    namespace: str = ""
    placement_seconds: float = 300.0
    start_seconds: float = 300.0
    runtime_root: PurePosixPath = field(default_factory=lambda: PurePosixPath("/run/wsc"))
    lease_name: str = "wsc-appliance"
    lease_seconds: float = 15.0
    is_alone: bool = False
    standby_file: PurePosixPath | None = None
    kept_seconds: float = 86_400.0
    runtime_class: str = ""
    scheduling_gates: bool = True
    kueue: bool = False
    kueue_queue: str = ""
    sessions: Mapping[str, SessionNamespace] = field(default_factory=dict)
    roles: Mapping[Role, RoleOptions] = field(default_factory=dict)
    on_drain: OnDrain = OnDrain.WAIT
    tell_unmapped: bool = False

    @property
    def object_labels(self) -> Mapping[str, str]:
        """Labels of what shows jobs and systems: those of the release, by which it is removed."""
        return {k: v for k, v in self.labels.items() if k == INSTANCE_LABEL}

    @property
    def _release_labels(self) -> Mapping[str, str]:
        """Labels by which policies and budgets select pods of jobs."""
        ours = (INSTANCE_LABEL, COMPONENT_LABEL)
        return {name: self.labels[name] for name in ours if name in self.labels}

    def of_session(self, session: str) -> "KubernetesOptions":
        """Return the options of a session with a namespace of its own."""
        own = self.sessions[session]
        claim = own.data_claim or self.data_volume.claim
        volumes, queue = own.user_volumes, own.kueue_queue
        return replace(
            self,
            namespace=own.namespace,
            data_volume=replace(self.data_volume, claim=claim),
            user_volumes=self.user_volumes if volumes is None else volumes,
            kueue_queue=self.kueue_queue if queue is None else queue,
        )

    def of_role(self, role: Role) -> "KubernetesOptions":
        """Return the options of pods of one role."""
        if (own := self.roles.get(role)) is None:
            return self
        return replace(
            self,
            labels={**self.labels, **own.labels, **self._release_labels},
            pod_annotations={**self.pod_annotations, **own.pod_annotations},
            scheduler_name=own.scheduler_name or self.scheduler_name,
            priority_class=own.priority_class or self.priority_class,
            affinity=self.affinity if own.affinity is None else own.affinity,
            tolerations=(*self.tolerations, *own.tolerations),
            extra_env=(*self.extra_env, *own.extra_env),
            extra_volumes=(*self.extra_volumes, *own.extra_volumes),
            extra_mounts=(*self.extra_mounts, *own.extra_mounts),
        )

    def check_namespaces(self, namespace: str) -> None:
        """Hold the sessions' namespaces to be different from each other and from ours.

        Args:
            namespace: Management's own.

        Raises:
            UserError: Two sessions have one namespace, or one has management's.
        """
        taken: dict[str, str] = {namespace: "the release"}
        for session, own in self.sessions.items():
            if other := taken.get(own.namespace):
                raise UserError(
                    f"Session {session!r} is mapped to namespace {own.namespace}, which is that of "
                    f"{other}.",
                    hint="Give each session of `sessions` a namespace of its own.",
                )
            taken[own.namespace] = f"session {session!r}"

    def __post_init__(self) -> None:
        if not self.image:
            raise UserError("The Kubernetes settings name no image for pods.", hint=_EXAMPLE)
        for role, asked in self.resources.items():
            if unknown := [name for name in asked if not _RESOURCE.fullmatch(name)]:
                raise UserError(
                    f"The resources of {role.value} pods name {unknown[0]}, which no node has.",
                    hint="There are cpu, memory, ephemeral-storage, hugepages-... and devices.",
                )
        if self.default_uid < 1:
            raise UserError(f"Pods cannot run as uid {self.default_uid}; it must not be root.")
        for name in ("placement_seconds", "start_seconds", "lease_seconds"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name} is {getattr(self, name)}; it must be above 0.")


def parse_options(text: str, *, source: str) -> KubernetesOptions:
    """Return the settings that a YAML text holds.

    Args:
        text: YAML; fields are written as in `placementSeconds`.
        source: Where it is from, for messages.

    Raises:
        UserError: It is no YAML, lacks something or has something unknown.
    """
    try:
        fields = yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise UserError(f"{source} is no YAML: {error}.") from error
    if not isinstance(fields, dict):
        raise UserError(f"{source} holds no mapping.", hint=_EXAMPLE)
    known = {_camel(name): name for name in KubernetesOptions.__slots__}
    unknown = sorted(str(name) for name in fields if name not in known)
    if unknown:
        raise UserError(
            f"{source} has unknown settings: {', '.join(unknown)}.",
            hint=f"There are: {', '.join(sorted(known))}.",
        )
    values = {known[name]: value for name, value in fields.items() if value is not None}
    try:
        return KubernetesOptions(**{name: _parsed(name, each) for name, each in values.items()})
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise UserError(f"{source} is not well formed: {error}.", hint=_EXAMPLE) from error


# `Any`: values of a YAML file.
def _parsed(name: str, value: Any) -> Any:  # noqa: ANN401
    match name:
        case "data_volume":
            return DataVolume(claim=value["claim"], path=PurePosixPath(value["path"]))
        case "user_volumes":
            return tuple(map(_user_volume, value))
        case "sessions":
            return {str(session): _session_namespace(each) for session, each in value.items()}
        case "roles":
            return {Role(role): _role_options(each) for role, each in value.items()}
        case "node_selectors" | "resources":
            return {Role(role): dict(each) for role, each in value.items()}
        case "on_drain":
            return OnDrain(value)
        case "runtime_root" | "standby_file":
            return PurePosixPath(value)
        case _:
            return value


# `Any`: see above.
def _role_options(fields: Mapping[str, Any]) -> RoleOptions:
    """Return what the chart's values call as in `jobs`."""
    names = {
        "podLabels": "labels",
        "podAnnotations": "pod_annotations",
        "schedulerName": "scheduler_name",
        "priorityClassName": "priority_class",
        "affinity": "affinity",
        "tolerations": "tolerations",
        "extraEnv": "extra_env",
        "extraVolumes": "extra_volumes",
        "extraVolumeMounts": "extra_mounts",
    }
    return RoleOptions(**{names[name]: value for name, value in fields.items()})


# `Any`: see above.
def _session_namespace(fields: Mapping[str, Any]) -> SessionNamespace:
    volumes = fields.get("userVolumes")
    return SessionNamespace(
        namespace=fields["namespace"],
        data_claim=fields.get("dataClaim") or "",
        user_volumes=None if volumes is None else tuple(map(_user_volume, volumes)),
        kueue_queue=fields.get("kueueQueue"),
    )


# `Any`: see above.
def _user_volume(fields: Mapping[str, Any]) -> UserVolume:
    nfs = fields.get("nfs") or {}
    return UserVolume(
        name=fields["name"],
        path=PurePosixPath(fields["path"]),
        claim=fields.get("claim", ""),
        nfs_server=nfs.get("server", ""),
        nfs_path=nfs.get("path", ""),
        is_read_only=bool(fields.get("readOnly", False)),
    )


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
