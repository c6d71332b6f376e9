"""What symbols held when a run was stopped; see `appliance.sdk.host.inspection`."""

from appliance.sdk.host.inspection import StoppedRun as debug_util

__all__ = ["debug_util"]
