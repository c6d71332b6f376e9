"""What servicers read from a call beside its message."""

from typing import Any

from appliance.core.changed_values import changed
from appliance.management.access.authorization import asking
from appliance.wire.caller import Caller, caller

Context = Any
"""gRPC's servicer context, whose class is generic in the messages of each method."""


def caller_of(context: Context) -> Caller:
    """Return the caller: the identity from the gate, with the call's own metadata."""
    return changed(caller(context.invocation_metadata()), user=asking())
