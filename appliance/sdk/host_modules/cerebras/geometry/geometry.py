"""Points and rectangles; see `appliance.sdk.geometry`."""

from appliance.sdk.geometry import IntRectangle, IntVector

__all__ = ["IntRectangle", "IntVector"]
