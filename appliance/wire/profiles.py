"""Where a job's simulated profile lies between its coordinator, which knows the plan, and readers.

The profile is a serialised `FinalizeResponse` with the spans of one step as `trace_events`: the
same message in which the client's own profiler gets them. Beside it lies the picture of the wafer,
as JSON.
"""

from pathlib import Path

from protos.appliance.appliance_service_pb2 import FinalizeResponse

_FILE = "profile.bin"
_PICTURE_FILE = "wafer.json"


def keep_profile(work_dir: Path, events: list[FinalizeResponse.EventTrace]) -> None:
    """Keep the profile of a job's present program in the job's work directory."""
    _keep(work_dir / _FILE, FinalizeResponse(trace_events=events).SerializeToString())


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


def keep_wafer_picture(work_dir: Path, text: str) -> None:
    """Keep the picture of a job's present program on the wafer, a `WaferPicture` as JSON."""
    _keep(work_dir / _PICTURE_FILE, text.encode())


def forget_wafer_picture(work_dir: Path) -> None:
    """Remove the picture of an earlier program, because the present one has none."""
    (work_dir / _PICTURE_FILE).unlink(missing_ok=True)


def find_wafer_picture(work_dir: Path) -> str | None:
    """Return the picture of the program that a job loaded last; None if it loaded none."""
    try:
        return (work_dir / _PICTURE_FILE).read_text()
    except FileNotFoundError:
        return None


def _keep(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_bytes(data)
    temporary.rename(path)
