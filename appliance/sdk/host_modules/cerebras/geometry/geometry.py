"""Points and rectangles; see `appliance.sdk.host.geometry`."""

from appliance.sdk.host.geometry import IntRectangle, IntVector

__all__ = ["IntRectangle", "IntVector"]
