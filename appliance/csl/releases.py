"""What each release of the language has: a program says with `--sdk-version` of which it is.

The facts are those of the public release notes. A part that a release removed is refused with what
to write instead; one that came later, with the release that has it. Programs of no particular
release may use what any of them has.
"""

from dataclasses import dataclass

RELEASES = ("1.1", "1.2", "1.3", "1.4", "2.10")
ANY = "any"
_BEFORE = "1.0"
"""Of what none of them has any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The first and the last release that have something, and what to write after the last."""

    since: str = RELEASES[0]
    until: str = RELEASES[-1]
    instead: str = ""


_MEMCPY = (
    "import <memcpy/get_params> with '.width' and '.height' in the layout, and <memcpy/memcpy> "
    "with what its 'get_params(x)' returns in each PE"
)
PARTS = {
    "@bind_task": Part(
        until=_BEFORE,
        instead="write '@bind_data_task', '@bind_local_task' or '@bind_control_task'",
    ),
    "@get_color_id": Part(until="1.1", instead="write '@get_int'"),
    "@concat_structs": Part(until="1.4", instead="nest the structs as fields instead"),
    "comptime_struct": Part(until="1.4", instead="use no type, or 'anytype'"),
    "<memcpy_multi/get_params>": Part(until=_BEFORE, instead=_MEMCPY),
    "<memcpy_multi/memcpy>": Part(until=_BEFORE, instead=_MEMCPY),
    "<memcpy_multi/memcpy_switches>": Part(
        until=_BEFORE, instead="import <memcpy/memcpy_switches>"
    ),
    **dict.fromkeys(
        ("@queue_flush", "@set_empty_queue_handler", "<simprint>", "<control>",
         "<message_passing>", "inline for"),
        Part(since="1.2"),
    ),
    **dict.fromkeys(("<dsd_ops>", "inline fn", "a label"), Part(since="1.3")),
    **dict.fromkeys(
        ("@fp16", "cb16", "bf16", "<kernels/fft/fft3d_layout>", "<kernels/fft/fft3d>",
         "<kernels/fft/get_params>"),
        Part(since="1.4"),
    ),
    **dict.fromkeys(
        ("@get_sr", "@load_to_dsr_xdsr_sr", "@bind_rotating_tasks", "anyopaque", "sr",
         "circbuf_dsd", "<data_utils>", "<string>", "<types>", "packed", "union",
         "an integer of any width"),
        Part(since="2.10"),
    ),
}  # fmt: skip
"""By what a message calls it."""


def problem_of(what: str, release: str) -> str:
    """Return why a program of a release may not have something, '' if it may.

    Args:
        what: A key of `PARTS`, or what every release has.
        release: One of `RELEASES`, or `ANY`.
    """
    part = PARTS.get(what)
    if part is None:
        return ""
    if part.until == _BEFORE or (release != ANY and _is_later(release, part.until)):
        return f"`{what}` is no longer supported in CSL; {part.instead}"
    if release != ANY and _is_later(part.since, release):
        return f"'{what}' came with SDK {part.since}; the program is of {release} (--sdk-version)"
    return ""


def _is_later(release: str, other: str) -> bool:
    return RELEASES.index(release) > RELEASES.index(other)
