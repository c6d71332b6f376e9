"""Whether a run is traced, for how many events, and where the trace goes.

A trace is asked for by the argument `fabric_trace` of `SdkRuntime`, by the variable
`WSC_FABRIC_TRACE`, or by `cslc --fabric-trace`; the first that says something decides. Each run of
a process that goes to the same file replaces the one before.
"""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.sdk.arguments import DEFAULT_EVENTS, MAX_EVENTS
from appliance.sdk.container import SOURCES_FILE, TRACE_FILE
from appliance.sdk.symbols import HostCallError

if TYPE_CHECKING:
    from appliance.fabric.tracing.trace import Trace

TRACE_VARIABLE = "WSC_FABRIC_TRACE"
"""Variable with a file's name; `1` for `DEFAULT_NAME`, `0` for no trace."""
EVENTS_VARIABLE = "WSC_FABRIC_TRACE_EVENTS"
"""Variable with the number of events that are kept."""
JOB_VARIABLE = "WSC_SDK_JOB_TRACE"
"""Variable with the file from which an SDK job takes its trace, set by the job's pod."""
DEFAULT_NAME = "fabric.trace"


@dataclass(frozen=True, slots=True)
class TraceOrder:
    """A trace that was asked for.

    Attributes:
        path: Where it goes.
        events: How many events are kept, the latest.
    """

    path: Path
    events: int


def trace_order(argument: str | os.PathLike[str] | None, directory: Path) -> TraceOrder | None:
    """Return the trace options of a run; None if tracing is off.

    Args:
        argument: What the program has said: a name, empty for no trace, None for nothing.
        directory: The compiled program.

    Raises:
        HostCallError: The number of events is none that is possible.
    """
    compiled = _compiled_events(directory)
    wanted = os.environ.get(TRACE_VARIABLE, "") if argument is None else os.fspath(argument)
    if argument is None and wanted in ("", "1"):
        wanted = DEFAULT_NAME if wanted or compiled else ""
    if wanted in ("", "0"):
        return None
    events = _events(os.environ.get(EVENTS_VARIABLE, ""), compiled or DEFAULT_EVENTS)
    return TraceOrder(Path(wanted).resolve(), events)


def sources_of(directory: Path) -> Mapping[str, Sequence[str]]:
    """Return the lines of a program's source files, as far as its directory has them."""
    texts = _json_object(directory / SOURCES_FILE)
    return {name: str(text).split("\n") for name, text in texts.items()}


def write_trace(trace: "Trace", path: Path) -> None:
    """Write a trace, and a second time for the job that this runs in, if it does.

    Raises:
        HostCallError: It cannot be written.
    """
    from appliance.fabric.tracing.trace import file_of  # noqa: PLC0415 - as in `SdkRuntime.load`

    targets = {path}
    if for_job := os.environ.get(JOB_VARIABLE):
        targets.add(Path(for_job))
    for target in targets:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            number, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            try:
                with os.fdopen(number, "wb") as file:
                    file.writelines(file_of(trace))
                Path(name).replace(target)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise HostCallError(f"The trace {target} cannot be written: {error}.") from error


def _compiled_events(directory: Path) -> int:
    events = _json_object(directory / TRACE_FILE).get("events", 0)
    return events if isinstance(events, int) and 0 <= events <= MAX_EVENTS else 0


def _events(text: str, default: int) -> int:
    if not text:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= MAX_EVENTS:
        raise HostCallError(
            f"{EVENTS_VARIABLE} is {text!r}; a trace keeps 1 to {MAX_EVENTS:,} events."
        )
    return int(text)


def _json_object(path: Path) -> Mapping[str, object]:
    """Return the JSON object in a file; empty if there is none."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
