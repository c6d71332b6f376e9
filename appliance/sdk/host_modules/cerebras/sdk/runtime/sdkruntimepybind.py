"""The runtime; see `appliance.sdk.runtime`."""

from appliance.sdk.arrays import MemcpyDataType, MemcpyOrder
from appliance.sdk.runtime import SdkRuntime
from appliance.sdk.tasks import Task

__all__ = ["MemcpyDataType", "MemcpyOrder", "SdkRuntime", "Task"]
