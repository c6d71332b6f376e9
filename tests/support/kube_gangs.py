"""Gangs as their records say, and what there is of them, for tests of what is decided."""

import datetime as dt
import json

from appliance.cluster.kubernetes import gangs, manifests
from appliance.cluster.kubernetes.gangs import Progress, Seen
from appliance.cluster.kubernetes.object_kinds import job_label, name_of
from appliance.core.ids import JobId

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
OWNER = {"apiVersion": "wsc.open-appliance.org/v1", "kind": "WsJob", "name": "a", "uid": "u-owner"}


def record_of(directory, specs, options, **changes):
    return manifests.gang(specs, OWNER, options, directory / "gangs", launched_at=NOW, **changes)


STOPS = {"true": Progress.STOPPING, "done": Progress.STOPPED}


def gang_of(record, *, started=False, stop=""):
    begun = Progress.STARTED if started else Progress.PLACING
    return gangs.Gang(
        job=JobId(job_label(record[0])),
        progress=STOPS.get(stop, begun),
        manifests={name_of(each): each for each in record},
        launched_at=NOW,
        started_at=NOW if started else None,
    )


def pod(gang, name, *, phase="Pending", node="node-1", code=None, deleting=None, reason=""):
    body = json.loads(json.dumps(gang.manifests[name]))
    body["metadata"] |= {"uid": f"u-{name}"}
    if deleting is not None:
        body["metadata"]["deletionTimestamp"] = deleting.isoformat()
    body["spec"]["nodeName"] = node
    body["status"] = {"phase": phase, "reason": reason}
    if code is not None:
        ended = {"exitCode": code, "reason": reason or "Error"}
        body["status"]["containerStatuses"] = [{"state": {"terminated": ended}}]
    return body


def seen(gang, now=NOW, **changes):
    """All pods of a gang, changed by member as in `chief_0={...}`; None leaves one out."""
    pods = {}
    for name in gang.manifests:
        member = name.removeprefix(f"{gang.job}-").replace("-", "_")
        fields = changes.get(member, {})
        if fields is not None:
            pods[name] = pod(gang, name, **fields)
    return Seen(pods=pods, now=now)
