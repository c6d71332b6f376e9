"""Where a job's simulated profile lies between its coordinator, which knows the plan, and readers.

The profile is a serialised `FinalizeResponse` with the spans of one step as `trace_events`: the
same message in which the client's own profiler gets them. Beside it lie, as JSON, the picture of
the wafer and the titles of the program's outputs.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from protos.appliance.appliance_service_pb2 import FinalizeResponse

_FILE = "profile.bin"
_TITLES = "output-titles.json"
_PICTURE_NAME = re.compile(r"wafer-(\d+)\.json")


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


def keep_wafer_picture(work_dir: Path, session: int, text: str) -> None:
    """Keep the picture of a session's program on the wafer, a `WaferPicture` as JSON.

    A session that runs the program of one of the two before it (training and evaluation often take
    turns) shares its file.
    """
    data = text.encode()
    for earlier in range(max(session - 2, 1), session):
        other = _picture(work_dir, earlier)
        if other.exists() and other.read_bytes() == data:
            _picture(work_dir, session).unlink(missing_ok=True)
            _picture(work_dir, session).hardlink_to(other)
            return
    _keep(_picture(work_dir, session), data)


def find_wafer_picture(work_dir: Path, session: int) -> str | None:
    """Return the picture of a session's program; None if it has none."""
    try:
        return _picture(work_dir, session).read_text()
    except FileNotFoundError:
        return None


def pictured_sessions(work_dir: Path) -> list[int]:
    """Return the numbers of the sessions whose program has a picture, in order."""
    found = (_PICTURE_NAME.fullmatch(path.name) for path in work_dir.glob("wafer-*.json"))
    return sorted(int(match[1]) for match in found if match)


def keep_output_titles(work_dir: Path, titles: Mapping[str, str]) -> None:
    """Keep titles of a program's outputs, by name, beside those of the programs before it."""
    known = dict(find_output_titles(work_dir))
    _keep(work_dir / _TITLES, json.dumps({**known, **titles}).encode())


def find_output_titles(work_dir: Path) -> Mapping[str, str]:
    """Return the titles of all outputs of a job's programs, by name; none before one is loaded."""
    try:
        titles: dict[str, str] = json.loads((work_dir / _TITLES).read_text())
    except FileNotFoundError:
        return {}
    return titles


def _picture(work_dir: Path, session: int) -> Path:
    return work_dir / f"wafer-{session}.json"


def _keep(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_bytes(data)
    temporary.rename(path)
