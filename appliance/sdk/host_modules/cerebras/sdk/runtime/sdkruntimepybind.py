"""The runtime, see `appliance.sdk.host.runtime`, and layouts, see `appliance.sdk.layout`."""

from appliance.sdk.host.arrays import MemcpyDataType, MemcpyOrder
from appliance.sdk.host.runtime import SdkRuntime
from appliance.sdk.host.tasks import Task
from appliance.sdk.layout.code_regions import CodeRegion, PortHandle
from appliance.sdk.layout.platforms import (
    FP16TYPE,
    SdkCompileArtifacts,
    SdkExecutionPlatform,
    SdkTarget,
    SimfabConfig,
    get_platform,
    get_simulator,
    get_system,
)
from appliance.sdk.layout.routing import (
    Color,
    Edge,
    EdgeRouteInfo,
    Route,
    RoutingPosition,
    get_edge_routing,
)
from appliance.sdk.layout.sdk_layout import SdkLayout

__all__ = [
    "FP16TYPE",
    "CodeRegion",
    "Color",
    "Edge",
    "EdgeRouteInfo",
    "MemcpyDataType",
    "MemcpyOrder",
    "PortHandle",
    "Route",
    "RoutingPosition",
    "SdkCompileArtifacts",
    "SdkExecutionPlatform",
    "SdkLayout",
    "SdkRuntime",
    "SdkTarget",
    "SimfabConfig",
    "Task",
    "get_edge_routing",
    "get_platform",
    "get_simulator",
    "get_system",
]
