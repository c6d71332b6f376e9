"""Arrays of the host and words of the device; see `appliance.sdk.host.arrays`."""

from appliance.sdk.host.arrays import calculate_cycles, input_array_to_u32, memcpy_view

__all__ = ["calculate_cycles", "input_array_to_u32", "memcpy_view"]
