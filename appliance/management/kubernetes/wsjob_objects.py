"""Converts between stored jobs and the wsjobs that Kubernetes shows. Pure.

A job has one wsjob, from its submission until some time after its end. The direction is fixed for
each part: the status is the job's, and only written; the spec belongs to whoever created the
object. Of the spec, priority and labels may change later; `status.taken` says which of them have
been taken over, so that an edit with kubectl is distinguished from one with csctl, and neither
undoes the other.
"""

import datetime as dt
import hashlib
import json
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from appliance.cluster.kubernetes.manifests import labels_of
from appliance.cluster.kubernetes.object_kinds import (
    FINALIZER,
    GROUP,
    Resource,
    is_being_deleted,
    job_label,
    name_of,
    uid_of,
)
from appliance.core.cluster.drivers import DriverSpec, FailureCategory, RestartPolicy
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import DEFAULT_PRIORITY, JobRecord, User
from appliance.core.errors import UserError
from appliance.core.ids import JOB_PREFIX, JobId
from appliance.management.kubernetes.wsjob_conditions import conditions_of
from appliance.wire.requests.submissions import parse_priority
from appliance.wire.resources import duration_text, priority_text

TAG_PREFIX = f"label.{GROUP}/"
"""Prefix of the object's labels that mirror the job's tags, for `kubectl get wsjobs -l`."""

_ALPHABET = string.ascii_lowercase + string.digits
_SUFFIX_CHARACTERS = 22
_KUBERNETES_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

FIXED_FIELDS = (
    "type",
    "session",
    "user",
    "numSystems",
    "workersPerSystem",
    "activeDeadlineSeconds",
    "driver",
)
"""Fields of a spec that stay as they were submitted."""

FIXED_CHANGE = f"{', '.join(FIXED_FIELDS)} of a wsjob cannot be changed; create another wsjob"
SUSPENDED = "spec.suspend of its wsjob"
"""What holds a job whose wsjob says `suspend`."""

# `Any`: parts of an object.
Taken = Mapping[str, Any]
"""What has been taken over of a spec, as `status.taken` says it."""

_FINAL = frozenset(phase.value for phase in Phase if phase.is_terminal)

NO_JOB = "only a client makes compile and execute jobs; submit a driver, whose script is a client"
UNKNOWN_JOB = "the appliance does not know this job any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedEdit:
    """A request made by changing the spec of an existing job.

    Attributes:
        priority: The new priority; None leaves it.
        labels: Labels to add or replace; None as a value removes one.
        has_fixed_changes: Whether parts were changed that stay as they were submitted. Servers that
            know rules in definitions refuse such an edit themselves.
    """

    priority: str | None
    labels: Mapping[str, str | None]
    has_fixed_changes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A driver that a user has requested by creating a wsjob.

    Attributes:
        spec: What to run.
        session: Where it is listed; empty for the user's own.
        user: Whom it runs as.
        priority: From 0 to `MAX_PRIORITY`.
        labels: The user's tags.
        limit_seconds: It is ended when it has run for so long; None sets no limit.
        is_suspended: Whether it does not start until an edit says so.
    """

    spec: DriverSpec
    session: str
    user: User
    priority: int
    labels: Mapping[str, str]
    limit_seconds: float | None = None
    is_suspended: bool = False


def job_of(resource: Resource) -> JobId:
    """Return the job of a wsjob: the one that we have made it for, else one by its uid.

    So a wsjob is submitted once, whenever management is killed in between.
    """
    if is_ours(resource):
        return JobId(name_of(resource))
    number = int.from_bytes(hashlib.sha256(uid_of(resource).encode()).digest())
    letters = []
    for _ in range(_SUFFIX_CHARACTERS):
        number, place = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[place])
    return JobId(JOB_PREFIX + "".join(letters))


def owner_reference(resource: Resource) -> Resource:
    """Return the reference by which a job's objects name their wsjob."""
    return {
        "apiVersion": resource["apiVersion"],
        "kind": resource["kind"],
        "name": name_of(resource),
        "uid": uid_of(resource),
        "controller": True,
    }


def new_object(
    job: JobRecord, driver: DriverSpec | None, labels: Mapping[str, str] | None = None
) -> Resource:
    """Return the wsjob of a job that did not come from one.

    Args:
        driver: What a driver runs. Its environment is not shown: it may hold secrets.
        labels: Labels of all that the appliance makes.
    """
    spec: dict[str, Any] = {
        "type": job.type.value,
        "session": job.session,
        "priority": str(job.priority),
        "labels": dict(job.labels),
        "numSystems": job.num_systems,
        "workersPerSystem": job.workers_per_system,
    }
    if job.user.uid > 0 and job.user.name:
        spec["user"] = _user_fields(job.user)
    if driver is not None:
        spec["driver"] = {"command": list(driver.argv), "workingDir": driver.work_dir}
    all_labels = {**(labels or {}), **labels_of(job.id), **tags_of(job.labels)}
    return {
        "metadata": {"name": job.id, "labels": all_labels, "finalizers": [FINALIZER]},
        "spec": spec,
    }


def read_request(resource: Resource) -> Request:
    """Return the request of a wsjob that a user has created.

    Raises:
        UserError: It cannot be done.
    """
    spec = resource["spec"]
    if spec.get("type", JobType.DRIVER) != JobType.DRIVER:
        raise UserError(f"Job {name_of(resource)} was not submitted: {NO_JOB}.")
    if not (user := spec.get("user")):
        raise UserError(
            f"Job {name_of(resource)} does not say whom it runs as.",
            hint="Set spec.user to uid, gid and name.",
        )
    if not (driver := spec.get("driver")):
        raise UserError(
            f"Job {name_of(resource)} does not say what it runs.",
            hint="Set spec.driver to command and workingDir, as in examples/wsjob.yaml.",
        )
    restart = driver.get("restart") or {}
    return Request(
        spec=DriverSpec(
            argv=tuple(driver["command"]),
            work_dir=driver["workingDir"],
            environment=dict(driver.get("environment") or {}),
            value_from=dict(driver.get("valueFrom") or {}),
            num_systems=int(spec.get("numSystems") or 0),
            restart=RestartPolicy(
                on=tuple(FailureCategory(each) for each in restart.get("on") or ()),
                limit=int(restart.get("limit") or 0),
            ),
        ),
        session=spec.get("session") or "",
        user=User(uid=int(user["uid"]), gid=int(user.get("gid", user["uid"])), name=user["name"]),
        priority=parse_priority(spec["priority"]) if spec.get("priority") else DEFAULT_PRIORITY,
        labels=dict(spec.get("labels") or {}),
        limit_seconds=spec.get("activeDeadlineSeconds"),
        is_suspended=is_suspended(resource),
    )


def is_suspended(resource: Resource) -> bool:
    """Whether a wsjob says that its job is not to run."""
    return bool(resource["spec"].get("suspend"))


def status_of(
    job: JobRecord, resource: Resource, *, now: dt.datetime, dashboard: str, why_waits: str
) -> dict[str, Any]:
    """Return the status of a job's wsjob.

    Args:
        resource: The wsjob as it is.
        now: Wall time.
        dashboard: Address of the job's page.
        why_waits: Why the job is not served yet; empty if it is.
    """
    end = job.ended_at or now
    message = (job.held_by and why_waits) or job.message or why_waits
    return {
        "job": job.id,
        "type": job.type.value,
        "phase": job.phase.value,
        "message": message,
        "session": job.session,
        "workflow": job.workflow,
        "user": job.user.name,
        "priority": priority_text(job.priority),
        "labels": dict(job.labels),
        "labelText": ",".join(f"{key}={value}" for key, value in sorted(job.labels.items())),
        "systems": list(job.systems),
        "systemNames": ",".join(job.systems) or (f"({job.num_systems})" if job.num_systems else ""),
        "dashboard": dashboard,
        "startedAt": _time_text(job.started_at),
        "endedAt": _time_text(job.ended_at),
        "duration": duration_text(end - job.started_at) if job.started_at else "",
        "observedGeneration": resource["metadata"].get("generation", 0),
        "taken": taken(resource),
        "conditions": conditions_of(
            job.phase,
            resource,
            message=message,
            now=now,
            is_suspended=bool(job.held_by),
            pods_wait=why_waits,
        ),
    }


def refused_status(
    resource: Resource, message: str, *, now: dt.datetime, reason: str = "Refused"
) -> dict[str, Any]:
    """Return the status of a wsjob from which no job could be made, or whose job is unknown."""
    return {
        "phase": Phase.FAILED.value,
        "message": message,
        "endedAt": (resource.get("status") or {}).get("endedAt") or _time_text(now),
        "conditions": conditions_of(
            Phase.FAILED, resource, message=message, now=now, reason=reason
        ),
        "observedGeneration": resource["metadata"].get("generation", 0),
    }


def waiting_status(resource: Resource, message: str, *, now: dt.datetime) -> dict[str, Any]:
    """Return the status of a wsjob from which a job is made once a limit lets it."""
    return {
        "phase": Phase.CREATED.value,
        "message": message,
        "conditions": conditions_of(
            Phase.CREATED, resource, message=message, now=now, reason="WaitsForAdmission"
        ),
    }


def status_changes(resource: Resource, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is to be merged into a status; empty if it is as wanted.

    What is empty is left out, or taken away: older API servers make nulls of empty texts. That time
    goes by is no reason to write: the duration is written with other news.
    """
    present = resource.get("status") or {}
    changes: dict[str, Any] = {}
    for name, value in wanted.items():
        if isinstance(value, Mapping):
            merged = _merge(present.get(name) or {}, value)
            if merged or name not in present:
                changes[name] = merged
        elif value in (None, ""):
            changes |= {name: None} if name in present else {}
        elif present.get(name) != value:
            changes[name] = value
    return {} if set(changes) <= {"duration"} and not wanted.get("endedAt") else changes


def label_changes(
    job: JobRecord, resource: Resource, labels: Mapping[str, str] | None = None
) -> dict[str, str | None]:
    """Return what is to be merged into a wsjob's labels, so that they show the job's tags.

    Args:
        resource: The wsjob as it is.
        labels: Labels of all that the appliance makes.
    """
    ours = {**(labels or {}), **labels_of(job.id)}
    present = {
        key: value
        for key, value in (resource["metadata"].get("labels") or {}).items()
        if key.startswith(TAG_PREFIX) or key in ours
    }
    return _merge(present, {**ours, **tags_of(job.labels)})


def metadata_changes(
    job: JobRecord, resource: Resource, labels: Mapping[str, str]
) -> dict[str, Any]:
    """Return what is to be merged into a wsjob's metadata: labels, and the finalizer while it runs.

    Args:
        resource: The wsjob as it is.
        labels: Labels of all that the appliance makes.
    """
    metadata: dict[str, Any] = {}
    if changed := label_changes(job, resource, labels):
        metadata["labels"] = changed
    is_held, is_over = has_finalizer(resource), job.phase.is_terminal
    if is_held == is_over and (is_held or not is_being_deleted(resource)):
        metadata |= finalizers(resource, wanted=not is_over)
    return metadata


def kept_seconds(resource: Resource, default: float) -> float | None:
    """Return for how long a wsjob is kept after its job's end; None for ever.

    Args:
        resource: The wsjob.
        default: Of those that the appliance has made.
    """
    seconds = (resource.get("spec") or {}).get("ttlSecondsAfterFinished")
    if seconds is not None:
        return float(seconds)
    return default if is_ours(resource) else None


def ended_at(resource: Resource) -> dt.datetime | None:
    """Return when a wsjob says that its job ended; None if it does not."""
    text = (resource.get("status") or {}).get("endedAt")
    return dt.datetime.fromisoformat(text) if text else None


def read_requested_edit(resource: Resource, before: Taken | None = None) -> RequestedEdit | None:
    """Return what an edit of the spec asks for; None for nothing.

    Args:
        resource: The wsjob.
        before: What was taken over of it, if its status does not say that yet.
    """
    status = resource.get("status") or {}
    if status.get("observedGeneration") == resource["metadata"].get("generation"):
        return None
    if not (before := before or status.get("taken")):
        return None
    now = taken(resource)
    priority = now.get("priority")
    labels = _merge(before.get("labels") or {}, now["labels"])
    requested = RequestedEdit(
        priority=None if priority == before.get("priority") else priority,
        labels=labels,
        has_fixed_changes=before.get("fixed", now["fixed"]) != now["fixed"],
    )
    is_edit = requested.priority is not None or requested.labels or requested.has_fixed_changes
    return requested if is_edit else None


def has_finalizer(resource: Resource) -> bool:
    """Whether the object stays until we let it go."""
    return FINALIZER in (resource["metadata"].get("finalizers") or ())


def finalizers(resource: Resource, *, wanted: bool) -> Resource:
    """Return the metadata that set or take away our finalizer, for this version of the object."""
    others = [each for each in resource["metadata"].get("finalizers") or () if each != FINALIZER]
    return {
        "finalizers": [*others, FINALIZER] if wanted else others,
        "resourceVersion": resource["metadata"]["resourceVersion"],
    }


def is_final(resource: Resource) -> bool:
    """Whether a wsjob says that its job has ended."""
    return (resource.get("status") or {}).get("phase") in _FINAL


def is_over(resource: Resource) -> bool:
    """Whether nothing is left to be done for a wsjob but to remove it one day."""
    is_pending = is_submittable(resource) or has_finalizer(resource) or is_being_deleted(resource)
    return is_final(resource) and not is_pending


def is_ours(resource: Resource) -> bool:
    """Whether the appliance made the object, for a job submitted by another entry point."""
    return name_of(resource) == job_label(resource)


def was_submitted(resource: Resource) -> bool:
    """Whether a wsjob has led to a job, or to a refusal of this very spec."""
    status = resource.get("status") or {}
    if status.get("job"):
        return True
    generation = resource["metadata"].get("generation")
    is_decided = status.get("phase") not in (None, Phase.CREATED.value)
    return is_decided and status.get("observedGeneration") == generation


def is_submittable(resource: Resource) -> bool:
    """Whether a job is to be made from a wsjob."""
    return not (is_ours(resource) or was_submitted(resource) or is_being_deleted(resource))


def tags_of(labels: Mapping[str, str]) -> dict[str, str]:
    """Return a job's tags as labels of an object, all that may be one."""
    return {
        f"{TAG_PREFIX}{key}": value
        for key, value in labels.items()
        if _KUBERNETES_NAME.fullmatch(key) and (not value or _KUBERNETES_NAME.fullmatch(value))
    }


def taken(resource: Resource) -> Taken:
    """Return what `status.taken` says of a spec that has been taken over."""
    spec = resource["spec"]
    found = {"labels": dict(spec.get("labels") or {}), "fixed": _fixed_digest(spec)}
    return {**found, "priority": spec["priority"]} if spec.get("priority") else found


def _fixed_digest(spec: Mapping[str, Any]) -> str:
    """Return a digest of what stays as it was submitted: all that `crd-rules` holds fixed."""
    fixed = {name: spec[name] for name in FIXED_FIELDS if name in spec}
    return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()


def _merge(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch from one mapping to another; empty if they are alike."""
    changes: dict[str, Any] = {key: None for key in present if key not in wanted}
    for key, value in wanted.items():
        if isinstance(value, Mapping) and isinstance(present.get(key), Mapping):
            if inner := _merge(present[key], value):
                changes[key] = inner
        elif present.get(key) != value:
            changes[key] = value
    return changes


def _user_fields(user: User) -> dict[str, Any]:
    fields: dict[str, Any] = {"uid": user.uid, "name": user.name}
    return {**fields, "gid": user.gid} if user.gid > 0 else fields


def _time_text(time: dt.datetime | None) -> str | None:
    return None if time is None else time.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
