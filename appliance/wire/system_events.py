"""Events of systems as `CsCtlV1` carries them."""

from appliance.core.cluster.systems import SystemEvent, SystemEventKind
from protos.csctl import api_pb2 as pb

KINDS = {
    pb.SYSTEM_EVENT_TYPE_STALL: SystemEventKind.STALL,
    pb.SYSTEM_EVENT_TYPE_STATE_CHANGE: SystemEventKind.STATE_CHANGE,
}
"""Kinds by their numbers on the wire; unspecified is any."""


def event_message(event: SystemEvent) -> pb.SystemEvent:
    """Return an event as it is sent; a system's host name is its name here."""
    message = pb.SystemEvent(
        system_name=event.system, system_hostname=event.system, note=event.note
    )
    message.timestamp.FromDatetime(event.at)
    details = event.details
    match event.kind:
        case SystemEventKind.STALL:
            message.stall_event.job_name = details.get("job", "")
            message.stall_event.job_namespace = details.get("session", "")
            message.stall_event.model = details.get("model", "")
        case SystemEventKind.STATE_CHANGE:
            message.state_change_event.state = details.get("state", "")
            message.state_change_event.port = details.get("port", "")
            message.state_change_event.caller = details.get("caller", "")
    return message
