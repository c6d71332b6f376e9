"""The runtime; see `appliance.sdk.host.runtime`."""

from appliance.sdk.host.arrays import MemcpyDataType, MemcpyOrder
from appliance.sdk.host.runtime import SdkRuntime
from appliance.sdk.host.tasks import Task

__all__ = ["MemcpyDataType", "MemcpyOrder", "SdkRuntime", "Task"]
