"""Where a job's simulated profile lies between its coordinator, which knows the plan, and csctl.

The file is a serialised `FinalizeResponse` with the spans of one step as `trace_events`: the same
message in which the client's own profiler gets them.
"""

from pathlib import Path

from protos.appliance.appliance_service_pb2 import FinalizeResponse

_FILE = "profile.bin"


def keep_profile(work_dir: Path, events: list[FinalizeResponse.EventTrace]) -> None:
    """Keep the profile of a job's present program in the job's work directory."""
    temporary = work_dir / f".{_FILE}"
    temporary.write_bytes(FinalizeResponse(trace_events=events).SerializeToString())
    temporary.rename(work_dir / _FILE)


def find_profile(work_dir: Path) -> FinalizeResponse | None:
    """Return the profile of the program that a job loaded last; None if it loaded none."""
    try:
        data = (work_dir / _FILE).read_bytes()
    except FileNotFoundError:
        return None
    return FinalizeResponse.FromString(data)


def chrome_events(profile: FinalizeResponse) -> list[dict[str, str | float]]:
    """Return a profile's spans as Chrome's trace format has them, in microseconds, on one track."""
    return [
        {
            "name": event.name,
            "cat": event.cat,
            "ph": "X",
            "ts": event.ts,
            "dur": event.dur,
            "pid": 0,
            "tid": 0,
        }
        for event in profile.trace_events
    ]
