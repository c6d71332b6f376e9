"""What symbols held when a run was stopped; see `appliance.sdk.inspection`."""

from appliance.sdk.inspection import StoppedRun as debug_util

__all__ = ["debug_util"]
