"""Sessions as `CsAdmV1` writes them.

The wire has numbers for systems, node groups and parallel jobs, where 0 means "no limit of its
own". What our sessions have beyond that (borrowing, shares, members) travels as properties, by the
names in `OWN_PROPERTIES`.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from appliance.core.cluster.sessions import SessionRecord, SessionSpec, SessionUpdate
from appliance.core.errors import UserError
from appliance.core.integers import find_integer
from protos.csadm import csadm_pb2 as pb

OWN_PROPERTIES = ("borrow_limit", "shares", "members", "is_paused")
"""Properties that are read into the session's own fields."""

_MOST_BORROWED = 1_000_000
_BY_COUNT = (pb.UNSPECIFIED, pb.SET_RESOURCE_SPEC, pb.SET_RESOURCE_SPEC_DRYRUN)


def is_dry_run(spec: pb.SessionSpec) -> bool:
    """Whether a request only asks what would be done."""
    return spec.update_mode == pb.SET_RESOURCE_SPEC_DRYRUN


# `Any`: values of the fields of `SessionSpec`, which have several types.
def session_changes(
    spec: pb.SessionSpec,
    properties: Mapping[str, str],
    operations: Iterable[pb.UserLabelOperation],
    *,
    before: SessionSpec,
) -> dict[str, Any]:
    """Return what a request changes, by name of the field of `SessionSpec`.

    Args:
        spec: Its numbers; fields that no request sets are left alone.
        properties: Properties to set; an empty value removes one.
        operations: Labels to set or remove.
        before: The session as it is.

    Raises:
        UserError: It names resources instead of numbers, or a property is not understood.
    """
    changes: dict[str, Any] = {}
    if spec.update_mode not in _BY_COUNT or spec.WhichOneof("update_params") == "resources":
        raise UserError(
            f"A session of this appliance has numbers of resources, no names; mode "
            f"{_mode_name(spec.update_mode)} names them, or is unknown.",
            hint="Use SET_RESOURCE_SPEC.",
        )
    if spec.HasField("resource_spec"):
        changes |= _counts(spec.resource_spec)
    for name in OWN_PROPERTIES:
        if name in properties:
            changes[name] = _own(name, properties[name])
    others = {key: value for key, value in properties.items() if key not in OWN_PROPERTIES}
    if others:
        merged = {**before.properties, **others}
        changes["properties"] = {key: value for key, value in merged.items() if value}
    if labels := _labels(before.labels, operations):
        changes["labels"] = labels[0]
    return changes


def session_message(
    record: SessionRecord,
    *,
    systems: Sequence[str] = (),
    node_groups: Sequence[str] = (),
    num_running: int = 0,
    num_queued: int = 0,
    idle_seconds: float = 0.0,
    history: Iterable[SessionUpdate] = (),
) -> pb.Session:
    """Return a session with what it holds, how busy it is, and its changes."""
    spec = record.spec
    own = {
        "borrow_limit": "" if spec.borrow_limit is None else str(spec.borrow_limit),
        "shares": f"{spec.shares:g}",
        "members": ",".join(spec.members),
        "is_paused": str(spec.is_paused).lower(),
    }
    return pb.Session(
        name=record.name,
        state=pb.SessionState(
            update_history=[_request(update) for update in history],
            current_resource_spec=pb.SessionResourceSpec(
                system_count=spec.num_systems or 0,
                large_memory_rack_count=spec.max_node_groups or 0,
                parallel_compile_count=spec.max_compiles or 0,
                parallel_execute_count=spec.max_executes or 0,
            ),
            resources=pb.SessionResources(systems=systems, nodegroups=node_groups),
        ),
        status=pb.RuntimeStatus(
            running_job_count=num_running,
            queueing_job_count=num_queued,
            inactive_duration=f"{idle_seconds:.0f}s",
        ),
        properties={
            **spec.properties,
            **{f"label/{key}": value for key, value in spec.labels.items()},
            **{key: value for key, value in own.items() if value},
        },
    )


def _counts(spec: pb.SessionResourceSpec) -> dict[str, int | None]:
    groups = spec.large_memory_rack_count + spec.xlarge_memory_rack_count
    return {
        "num_systems": spec.system_count or None,
        "max_node_groups": groups or None,
        "max_compiles": spec.parallel_compile_count or None,
        "max_executes": spec.parallel_execute_count or None,
    }


def _own(name: str, text: str) -> Any:  # noqa: ANN401 - a value of one of several types
    try:
        match name:
            case "borrow_limit":
                return _borrow_limit(text) if text else None
            case "shares":
                return float(text) if text else 1.0
            case "is_paused":
                return {"true": True, "false": False, "": False}[text.lower()]
            case _:
                return tuple(word for word in text.split(",") if word)
    except (ValueError, KeyError) as error:
        raise UserError(f"Property {name}={text[:80]!r} of a session is not understood.") from error


def _borrow_limit(text: str) -> int:
    found = find_integer(text, _MOST_BORROWED)
    if found is None:
        raise ValueError(text)
    return found


def _labels(
    before: Mapping[str, str], operations: Iterable[pb.UserLabelOperation]
) -> list[dict[str, str]]:
    """Return the labels after the operations; nothing if there are none."""
    labels, has_changed = dict(before), False
    for each in operations:
        has_changed = True
        if each.op == pb.UserLabelOperation.REMOVE:
            labels.pop(each.key, None)
        else:
            labels[each.key] = each.value
    return [labels] if has_changed else []


def _request(update: SessionUpdate) -> pb.RequestStatus:
    by = f" (by {update.by})" if update.by else ""
    return pb.RequestStatus(
        succeeded=True, message=f"{update.message}{by}", reconcile_time=_timestamp(update.at)
    )


def _timestamp(time: dt.datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(time)
    return stamp


def _mode_name(mode: pb.SessionUpdateMode.ValueType) -> str:
    """Return a mode's name; a number that no version of ours knows has none."""
    return pb.SessionUpdateMode.Name(mode) if mode in pb.SessionUpdateMode.values() else str(mode)
