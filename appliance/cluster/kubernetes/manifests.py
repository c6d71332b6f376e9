"""From the specs of a job's pods to the Kubernetes objects that run them.

The pods of a gang are its only objects; the job's wsjob owns them. What is wanted of them, and the
spec of each, is in the gang's record on the data volume (`gang_records`), of which a pod mounts its
own directory.

A container starts as soon as its pod has a node, and waits. When all pods have a node, the record
says so, and management tells every pod that asks. The file `start` in a pod's directory only hints
at it sooner: a network file system may take a minute to show it.
Where the server knows scheduling gates (Kubernetes 1.27), only the first pod of each role looks for
a node at once. The others follow when those have found one, so a job that finds none for some role
holds little of the cluster meanwhile.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from appliance.cluster.kubernetes.object_kinds import (
    GROUP,
    JOB_LABEL,
    MEMBER_LABEL,
    ROLE_LABEL,
    Resource,
)
from appliance.cluster.kubernetes.options import USER_ROLES, KubernetesOptions
from appliance.cluster.kubernetes.pod_words import CONTAINER
from appliance.cluster.kubernetes.read_variables import container_variables
from appliance.core.errors import ClusterError
from appliance.core.ids import JobId, Role
from appliance.core.pods.pod_options import DriverPodOptions
from appliance.core.pods.pod_spec import PodSpec

GATE = f"{GROUP}/placement"
"""Scheduling gate of pods that wait for the first of each role."""

GATES_SINCE = (1, 27)
"""Version of Kubernetes that has scheduling gates."""

LAUNCH_ANNOTATION = f"{GROUP}/launched"
"""On a pod: when its gang was launched; of an earlier launch of its job it has another value."""

SPEC_DIRECTORY = "/etc/wsc"
"""Where a pod finds its directory of the gang's record."""

SPEC_FILE = "spec.json"
START_FILE = "start"
"""There: the pod may run."""

ADDRESS_VARIABLE = "WSC_POD_ADDRESS"
"""Environment variable with the address at which other pods reach this one."""

_CORES = {Role.CHIEF: "100m", Role.WEIGHT: "100m", Role.COORDINATOR: "100m"}
_CORES_OF_OTHERS = "50m"
"""Cores that pods ask for unless the settings say it: so few that a job of two systems finds room
on a laptop with two. Pods use what nobody else does, and share what is short by these numbers."""

_MIB = 1 << 20
_MEMORY_MIB = {Role.CHIEF: 512, Role.WEIGHT: 512, Role.COORDINATOR: 512}
_MEMORY_MIB_OF_OTHERS = 256
"""Memory that pods ask for unless the settings or their job say more: what a pod has when it has
loaded its libraries and no model. What the plan needs comes on top. It is no limit."""

_EPHEMERAL_STORAGE = "256Mi"
"""Disk of the node that pods ask for: logs of the container, and /tmp."""

_END_SECONDS = 5
"""From SIGTERM to SIGKILL."""


def labels_of(job: JobId) -> Mapping[str, str]:
    """Return the labels of all that belongs to a job."""
    return {"app.kubernetes.io/name": "wsc-appliance", JOB_LABEL: job}


def pod_directory(records: Path, job: JobId, member: str) -> Path:
    """Return what one pod mounts of its gang's record."""
    return records / job / "pods" / member


def fitted(spec: PodSpec, options: KubernetesOptions) -> PodSpec:
    """Return a pod's spec as its container is.

    It has as many threads as it asks cores for, at least one. Its user's programs have the
    variables that the settings give its container, and a driver's script finds the image's
    programs.
    """
    given = options.of_role(spec.role).extra_env
    names = tuple(str(each["name"]) for each in given)
    spec = replace(spec, options=replace(spec.options, user_variables=names))
    if isinstance(spec.options, DriverPodOptions):
        secrets = tuple(str(each["name"]) for each in given if _is_secret(each))
        of_driver = replace(spec.options, path=options.user_path, redacted_variables=secrets)
        spec = replace(spec, options=of_driver)
    if spec.options.torch_threads is None:
        return spec
    threads = max(1, int(_num_cores(_cpu(spec, options))))
    return replace(spec, options=replace(spec.options, torch_threads=threads))


def _is_secret(variable: Mapping[str, Any]) -> bool:
    return "secretKeyRef" in (variable.get("valueFrom") or {})


def files_by_member(
    pods: Sequence[PodSpec], files: Mapping[str, bytes]
) -> Mapping[str, Mapping[str, bytes]]:
    """Return what each pod of a gang finds in its directory: its spec, and files that this names.

    Args:
        files: What `files_of` names, by option.
    """
    moved = {name: Path(SPEC_DIRECTORY) / name for name in files}
    return {
        spec.member: {
            SPEC_FILE: replace(spec, options=spec.options.with_files(moved)).to_json().encode(),
            **{name: files[name] for name in spec.options.files()},
        }
        for spec in pods
    }


def files_of(pods: Sequence[PodSpec]) -> Mapping[str, Path]:
    """Return the files of management's own that pods are to have: paths by option."""
    return {name: path for spec in pods for name, path in spec.options.files().items()}


def gang(
    pods: Sequence[PodSpec],
    owner: Resource,
    options: KubernetesOptions,
    records: Path,
    *,
    launched_at: dt.datetime,
    has_gates: bool = False,
) -> Sequence[Resource]:
    """Return the pods of a gang that is to be launched.

    Args:
        owner: The job's wsjob.
        options: What is known of the cluster.
        records: Where the records of gangs are.
        launched_at: Tells this launch of the job from others.
        has_gates: Whether the server knows scheduling gates.
    """
    manifests = [pod(spec, owner, options, records) for spec in pods]
    firsts = {spec.role: spec for spec in reversed(pods)}
    for spec, each in zip(pods, manifests, strict=True):
        annotations = each["metadata"].setdefault("annotations", {})
        annotations[LAUNCH_ANNOTATION] = launched_at.isoformat()
        if has_gates and firsts[spec.role] is not spec:
            each["spec"]["schedulingGates"] = [{"name": GATE}]
    return manifests


def pod(
    spec: PodSpec, owner: Resource, options: KubernetesOptions, records: Path
) -> dict[str, Any]:
    """Return one pod of a gang; see `gang`."""
    options = options.of_role(spec.role)
    metadata = _metadata(spec.name, spec.job, owner)
    labels = {
        **metadata["labels"],
        **options.labels,
        ROLE_LABEL: spec.role.value,
        MEMBER_LABEL: spec.member,
    }
    body: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _END_SECONDS,
        "hostname": spec.member,
        "securityContext": _pod_security(spec, options),
        "containers": [_container(spec, options, records)],
        "volumes": list(_volumes(spec, options)),
        "nodeSelector": dict(options.node_selectors.get(spec.role, {})),
        "tolerations": list(options.tolerations),
        "imagePullSecrets": [{"name": name} for name in options.pull_secrets],
        "topologySpreadConstraints": _spread(spec),
    }
    asked_for = {
        "serviceAccountName": options.pod_account,
        "runtimeClassName": options.runtime_class,
        "schedulerName": options.scheduler_name,
        "priorityClassName": options.priority_class,
        "affinity": dict(options.affinity),
    }
    body |= {name: value for name, value in asked_for.items() if value}
    if options.pod_annotations:
        metadata["annotations"] = dict(options.pod_annotations)
    return {"metadata": {**metadata, "labels": labels}, "spec": body}


def _metadata(name: str, job: JobId, owner: Resource) -> dict[str, Any]:
    return {"name": name, "labels": dict(labels_of(job)), "ownerReferences": [owner]}


def _user_of(spec: PodSpec, options: KubernetesOptions) -> tuple[int, int]:
    """Return the user that a pod runs as: its job's user, but never root."""
    uid = spec.options.user_uid or options.default_uid
    gid = spec.options.user_gid or options.group_id
    return uid, gid


def _pod_security(spec: PodSpec, options: KubernetesOptions) -> Resource:
    """Return whom a pod runs as.

    It has the data volume's group and no `fsGroup`: management's pod has given that volume to the
    group, and the users' own volumes are to stay the users'. The client in a driver pings the
    appliance, without the capability that it would need elsewhere.
    """
    uid, gid = _user_of(spec, options)
    pings = [{"name": "net.ipv4.ping_group_range", "value": "0 2147483647"}]
    return {
        "runAsNonRoot": True,
        "runAsUser": uid,
        "runAsGroup": gid,
        "supplementalGroups": [options.group_id],
        "seccompProfile": {"type": "RuntimeDefault"},
        **({"sysctls": pings} if spec.role is Role.DRIVER else {}),
    }


def _container(spec: PodSpec, options: KubernetesOptions, records: Path) -> Resource:
    image = options.user_image if spec.role in USER_ROLES else ""
    return {
        "name": CONTAINER,
        "image": image or options.image,
        "imagePullPolicy": options.pull_policy,
        "command": ["python", "-m", "appliance.cluster.pod_container"],
        "args": [
            *("--spec", f"{SPEC_DIRECTORY}/{SPEC_FILE}", "--address", f"$({ADDRESS_VARIABLE})"),
            *("--start", f"{SPEC_DIRECTORY}/{START_FILE}"),
        ],
        "workingDir": str(spec.work_dir),
        "env": [
            {
                "name": ADDRESS_VARIABLE,
                "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
            },
            {"name": "HOME", "value": "/tmp"},
            *container_variables(spec),
            *map(dict, options.extra_env),
        ],
        "resources": _resources(spec, options),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": list(_mounts(spec, options, records)),
    }


def _resources(spec: PodSpec, options: KubernetesOptions) -> Resource:
    """Return what a pod asks for: the cluster's word for its role, the job's own above it.

    Memory is a limit too, since a pod that takes more would take it from others. Cores are not:
    what nobody else uses is there to be used. Devices have to be both, as in `nvidia.com/gpu`.
    """
    asked = {name: str(amount) for name, amount in options.resources.get(spec.role, {}).items()}
    if memory := spec.options.pod_memory_bytes:
        asked["memory"] = str(memory)
    limits = {name: amount for name, amount in asked.items() if name == "memory" or "/" in name}
    planned = spec.options.planned_memory_bytes
    return {
        "requests": {**requests_of_role(spec.role, options, planned_bytes=planned), **asked},
        "limits": limits,
    }


def requests_of_role(
    role: Role, options: KubernetesOptions, *, planned_bytes: int = 0
) -> Mapping[str, str]:
    """Return what a pod of a role requests unless its job says more.

    Args:
        options: What is known of the cluster.
        planned_bytes: Memory that its plan needs, on top of its libraries'.
    """
    asked = {name: str(amount) for name, amount in options.resources.get(role, {}).items()}
    planned = planned_bytes if options.plan_memory else 0
    own_mib = _MEMORY_MIB.get(role, _MEMORY_MIB_OF_OTHERS)
    return {
        "cpu": _CORES.get(role, _CORES_OF_OTHERS),
        "memory": f"{own_mib - (-planned // _MIB)}Mi",
        "ephemeral-storage": _EPHEMERAL_STORAGE,
        **asked,
    }


def _cpu(spec: PodSpec, options: KubernetesOptions) -> str:
    by_itself = _CORES.get(spec.role, _CORES_OF_OTHERS)
    return str(options.resources.get(spec.role, {}).get("cpu", by_itself))


def _num_cores(quantity: str) -> float:
    return int(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


_SPREAD = (Role.WEIGHT, Role.BROADCASTREDUCE, Role.CHIEF, Role.WORKER, Role.ACTIVATION)
"""Roles of which a job has several pods, each with memory or work enough for a node."""


def _spread(spec: PodSpec) -> list[Resource]:
    if spec.role not in _SPREAD:
        return []
    return [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {JOB_LABEL: spec.job, ROLE_LABEL: spec.role.value}},
        }
    ]


def _volumes(spec: PodSpec, options: KubernetesOptions) -> Iterator[Resource]:
    yield {"name": "data", "persistentVolumeClaim": {"claimName": options.data_volume.claim}}
    yield {"name": "runtime", "emptyDir": {}}
    yield {"name": "tmp", "emptyDir": {}}
    yield from map(dict, options.extra_volumes)
    limit = _resources(spec, options)["limits"].get("memory", options.shared_memory)
    yield {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": limit}}
    if spec.role not in USER_ROLES:
        return
    for volume in options.user_volumes:
        name = f"user-{volume.name}"
        if volume.claim:
            yield {"name": name, "persistentVolumeClaim": {"claimName": volume.claim}}
        else:
            yield {
                "name": name,
                "nfs": {"server": volume.nfs_server, "path": volume.nfs_path},
            }


def _mounts(spec: PodSpec, options: KubernetesOptions, records: Path) -> Iterator[Resource]:
    own = _data_mount(PurePosixPath(pod_directory(records, spec.job, spec.member)), options)
    yield {**own, "mountPath": SPEC_DIRECTORY, "readOnly": True}
    yield from (_data_mount(path, options) for path in _data_paths(spec))
    yield {"name": "runtime", "mountPath": str(options.runtime_root)}
    yield {"name": "tmp", "mountPath": "/tmp"}
    yield {"name": "shm", "mountPath": "/dev/shm"}
    yield from map(dict, options.extra_mounts)
    if spec.role not in USER_ROLES:
        return
    for volume in options.user_volumes:
        mount = {"name": f"user-{volume.name}", "mountPath": str(volume.path)}
        yield {**mount, "readOnly": True} if volume.is_read_only else mount


def _data_paths(spec: PodSpec) -> Iterator[PurePosixPath]:
    """Yield what a pod sees of the data volume: nothing of other jobs'."""
    yield PurePosixPath(spec.work_dir)
    yield from (PurePosixPath(path) for path in spec.options.directories())


def _data_mount(path: PurePosixPath, options: KubernetesOptions) -> Resource:
    try:
        below = path.relative_to(options.data_volume.path)
    except ValueError as error:
        raise ClusterError(
            f"{path} is not on the data volume, which is at {options.data_volume.path}.",
            hint="Put the data directory onto the data volume.",
        ) from error
    return {"name": "data", "mountPath": str(path), "subPath": str(below)}
