"""What is connected to what, and what happened to it, over REST."""

import datetime as dt
import hashlib
from typing import Annotated, Any

import yaml
from fastapi import Depends, Header, Query, Request, Response
from pydantic import BaseModel

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.job_routes.jobs import JobPath, with_zone
from appliance.api.problems import problems
from appliance.api.services import Services
from appliance.core.access_rules import rules
from appliance.core.cluster.systems import ClusterDescription, SystemEvent, SystemEventKind
from appliance.core.errors import StaleError, UserError
from appliance.core.ids import JobId
from appliance.core.queries.system_event_filter import SystemEventFilter
from appliance.management.cluster.cluster_file import parse_cluster, write_cluster
from appliance.management.cluster.cluster_topology import job_topology

router = entry_router("cluster")

_YAML = "application/yaml"
_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The cluster file",
        "content": {_YAML: {"schema": {"type": "object"}}},
    }
}


class PodConnection(BaseModel):
    """Where a pod is, and whom it talks to."""

    pod: str
    node: str
    systems: list[str]
    """Systems that it talks to directly."""
    pods: list[str]
    """Pods of the SwarmX tree that it sends to, if it is one of them."""
    switches: list[str]
    """Leaf switches of those systems, as far as they are known."""
    is_one_hop: bool
    """Whether all systems of the job hang on one known switch."""
    memory_mib: int | None
    """Resident memory, as last reported; null before that."""


class JobTopology(BaseModel):
    """Where a job's pods are."""

    items: list[PodConnection]


class SystemEventView(BaseModel):
    """Something that happened to a system."""

    system: str
    at: dt.datetime
    kind: SystemEventKind
    note: str
    details: dict[str, str]
    """Of a stall `job`, `session`, `model`; of a change of state `state`, `port`, `caller`."""

    @classmethod
    def of(cls, event: SystemEvent) -> "SystemEventView":
        """Return an event."""
        return cls(
            system=event.system,
            at=event.at,
            kind=event.kind,
            note=event.note,
            details=dict(event.details),
        )


class SystemEventList(BaseModel):
    """The newest thousand events that were asked for, oldest first."""

    items: list[SystemEventView]


@router.get("/jobs/{job_id}/topology", tags=["jobs"], responses=problems(404))
def get_job_topology(
    job_id: JobPath, entry: Annotated[Entry, enter(rules.READ_JOB)], services: Services
) -> JobTopology:
    """Return where a job's pods are, and what they send to."""
    view = services.jobs.view(JobId(job_id))
    found = job_topology(view.job, view.pods, services.systems.list())
    memory = {each.pod_id: int(each.pod_memory_mib) for each in found.memory_allocations}
    pods = {pod.name for pod in view.pods}
    return JobTopology(
        items=[
            PodConnection(
                pod=each.pod_id,
                node=each.node_name,
                systems=[name for name in _words(each.egress_targets) if name not in pods],
                pods=[name for name in _words(each.egress_targets) if name in pods],
                switches=_words(each.system_affinity_switch),
                is_one_hop=each.is_one_hop,
                memory_mib=memory.get(each.pod_id),
            )
            for each in found.connections
        ]
    )


@router.get("/system-events", responses=problems(400))
def list_system_events(
    entry: Annotated[Entry, enter(rules.READ)],
    services: Services,
    *,
    system: Annotated[str, Query(max_length=64)] = "",
    kind: SystemEventKind | None = None,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
) -> SystemEventList:
    """Return stalls and changes of state of systems, oldest first."""
    wanted = SystemEventFilter(
        system=system, kind=kind, since=with_zone(since), until=with_zone(until)
    )
    events = services.systems.events(wanted)
    return SystemEventList(items=[SystemEventView.of(event) for event in events])


@router.get("/cluster/file", responses={**problems(), **_FILE}, response_class=Response)
def get_cluster_file(entry: Annotated[Entry, enter(rules.READ)], services: Services) -> Response:
    """Return what the cluster consists of, as a file for `appliance up --cluster`."""
    return _file(services.systems.describe())


async def _body(request: Request) -> str:
    """Return a request's body, which is text."""
    data = await request.body()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UserError("The cluster file is not UTF-8.") from error


@router.put(
    "/cluster/file",
    responses={**problems(400, 403, 409, 412), **_FILE},
    response_class=Response,
    openapi_extra={
        "requestBody": {"required": True, "content": {_YAML: {"schema": {"type": "object"}}}}
    },
)
def put_cluster_file(
    text: Annotated[str, Depends(_body)],
    *,
    entry: Annotated[Entry, enter(rules.PUT_CLUSTER_FILE)],
    services: Services,
    if_match: Annotated[str, Header(max_length=128)] = "",
) -> Response:
    """Make the cluster what a file says while it runs; give its ETag as If-Match."""
    wanted = parse_cluster(text, source="The cluster file")

    def check(present: ClusterDescription) -> None:
        if if_match.strip() not in ("", "*", _etag(_text(present))):
            raise StaleError(
                "The cluster has changed since its file was read.",
                hint="Get the file again and repeat the change.",
            )

    entry.describe("file")
    services.systems.apply(wanted, check=check)
    return _file(services.systems.describe())


def _file(description: ClusterDescription) -> Response:
    text = _text(description)
    return Response(text, media_type=_YAML, headers={"etag": _etag(text)})


def _text(description: ClusterDescription) -> str:
    text: str = yaml.safe_dump(write_cluster(description), sort_keys=False)
    return text


def _etag(text: str) -> str:
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:16]}"'


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]
