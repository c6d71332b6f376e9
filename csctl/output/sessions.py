"""Sessions as tables."""

import datetime as dt

from csctl.output.table import Column, render
from protos.csadm.csadm_pb2 import RequestStatus, Session

_ANY = "any"


def _state(session: Session) -> str:
    return "paused" if session.properties.get("is_paused") == "true" else "ok"


def _count(number: int) -> str:
    return str(number) if number else _ANY


SESSION_COLUMNS: tuple[Column[Session], ...] = (
    Column(header="NAME", cell=lambda each: each.name),
    Column(
        header="SYSTEMS", cell=lambda each: _count(each.state.current_resource_spec.system_count)
    ),
    Column(header="BORROW", cell=lambda each: each.properties.get("borrow_limit", _ANY)),
    Column(
        header="NODEGROUPS",
        cell=lambda each: _count(each.state.current_resource_spec.large_memory_rack_count),
    ),
    Column(
        header="EXECUTES",
        cell=lambda each: _count(each.state.current_resource_spec.parallel_execute_count),
    ),
    Column(
        header="COMPILES",
        cell=lambda each: _count(each.state.current_resource_spec.parallel_compile_count),
    ),
    Column(header="SHARES", cell=lambda each: each.properties.get("shares", "1")),
    Column(header="STATE", cell=_state),
    Column(header="RUNNING", cell=lambda each: str(each.status.running_job_count)),
    Column(header="WAITING", cell=lambda each: str(each.status.queueing_job_count)),
    Column(header="IDLE", cell=lambda each: each.status.inactive_duration, is_wide=True),
    Column(header="MEMBERS", cell=lambda each: each.properties.get("members", ""), is_wide=True),
    Column(
        header="NAMESPACE", cell=lambda each: each.properties.get("namespace", ""), is_wide=True
    ),
    Column(header="HELD", cell=lambda each: ",".join(each.state.resources.systems), is_wide=True),
)

_CHANGE_COLUMNS: tuple[Column[RequestStatus], ...] = (
    Column(
        header="CHANGED",
        cell=lambda each: each.reconcile_time.ToDatetime(tzinfo=dt.UTC).strftime(
            "%Y-%m-%d %H:%M:%S"
        ),
    ),
    Column(header="WHAT", cell=lambda each: each.message),
)


def session_text(session: Session, *, wide: bool, coloured: bool) -> str:
    """Return a session's row and its changes."""
    parts = [render(SESSION_COLUMNS, [session], wide=True, coloured=coloured)]
    if session.state.update_history:
        parts.append(render(_CHANGE_COLUMNS, session.state.update_history, wide=wide))
    return "\n\n".join(parts)
