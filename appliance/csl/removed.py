"""What earlier releases of the SDK had, and what to write instead."""

BUILTINS = {
    "bind_task": "write '@bind_data_task', '@bind_local_task' or '@bind_control_task'",
    "get_color_id": "write '@get_int'",
}
"""Builtins by name."""

_MEMCPY = (
    "import <memcpy/get_params> with '.width' and '.height' in the layout, and <memcpy/memcpy> "
    "with what its 'get_params(x)' returns in each PE"
)
LIBRARIES = {
    "<memcpy_multi/get_params>": _MEMCPY,
    "<memcpy_multi/memcpy>": _MEMCPY,
    "<memcpy_multi/memcpy_switches>": "import <memcpy/memcpy_switches>",
}
"""Libraries by the path that imports them."""
