"""Where a job's simulated profile lies between its coordinator, which knows the plan, and readers.

The profile of a session's program is a serialised `FinalizeResponse` with the spans of one step as
`trace_events`: the same message in which the client's own profiler gets them. Beside it lie, as
JSON, the session's picture of the wafer and the titles of the outputs of all programs. A file that
is damaged counts as one that is not there.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from appliance.core.foreign_json import read_json
from appliance.files.kept_files import find_unsealed, replace_file, sealed
from protos.appliance.appliance_service_pb2 import FinalizeResponse

logger = logging.getLogger(__name__)

_PROFILE = "profile-{}.bin"
_PICTURE = "wafer-{}.json"
_TITLES = "output-titles.json"


def keep_profile(
    work_dir: Path, session: int, events: Sequence[FinalizeResponse.EventTrace]
) -> None:
    """Keep the profile of one step of a session's program in the job's work directory."""
    data = FinalizeResponse(trace_events=events).SerializeToString(deterministic=True)
    _keep_of_session(work_dir, _PROFILE, session, data)


def find_profile(work_dir: Path, session: int | None = None) -> FinalizeResponse | None:
    """Return the profile of a session's program; None if it has none.

    Args:
        work_dir: The job's work directory.
        session: The session; None for the last one that has a profile.
    """
    data = _find_of_session(work_dir, _PROFILE, session)
    return None if data is None else FinalizeResponse.FromString(data)


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
    """Keep the picture of a session's program on the wafer, a `WaferPicture` as JSON."""
    _keep_of_session(work_dir, _PICTURE, session, text.encode())


def find_wafer_picture(work_dir: Path, session: int | None = None) -> str | None:
    """Return the picture of a session's program; None if it has none.

    Args:
        work_dir: The job's work directory.
        session: The session; None for the last one that has a picture.
    """
    data = _find_of_session(work_dir, _PICTURE, session)
    return None if data is None else data.decode()


def keep_output_titles(work_dir: Path, titles: Mapping[str, str]) -> None:
    """Keep titles of a program's outputs, by name, beside those of the programs before it."""
    known = dict(find_output_titles(work_dir))
    replace_file(
        work_dir / _TITLES,
        sealed(json.dumps({**known, **titles}).encode()),
        mode=0o666,
        outlasts=False,
    )


def find_output_titles(work_dir: Path) -> Mapping[str, str]:
    """Return the titles of all outputs of a job's programs, by name; none before one is loaded."""
    try:
        titles = read_json(_find(work_dir / _TITLES) or b"{}")
    except ValueError:  # a pod has written it, with the rights of the job's user
        return {}
    pairs = titles.items() if isinstance(titles, dict) else ()
    return {name: title for name, title in pairs if isinstance(title, str)}


def _keep_of_session(work_dir: Path, name: str, session: int, data: bytes) -> None:
    """Keep what a session's program looks like.

    A session that runs the program of one of the two before it (training and evaluation often take
    turns) shares its file.
    """
    path = work_dir / name.format(session)
    text = sealed(data)
    for earlier in range(max(session - 2, 1), session):
        other = work_dir / name.format(earlier)
        if other.exists() and other.read_bytes() == text:
            path.unlink(missing_ok=True)
            path.hardlink_to(other)
            return
    replace_file(path, text, mode=0o666, outlasts=False)


def _find_of_session(work_dir: Path, name: str, session: int | None) -> bytes | None:
    number = session or max(_sessions_with(work_dir, name), default=0)
    return _find(work_dir / name.format(number))


def _sessions_with(work_dir: Path, name: str) -> Iterator[int]:
    pattern = re.compile(re.escape(name).replace(r"\{\}", r"(\d+)"))
    found = (pattern.fullmatch(path.name) for path in work_dir.glob(name.format("*")))
    return (int(match[1]) for match in found if match)


def _find(path: Path) -> bytes | None:
    """Return what was kept in a file; None if it is not there, or no longer that."""
    try:
        data = find_unsealed(path.read_bytes())
    except FileNotFoundError:
        return None
    if data is None:
        logger.warning("A file of a job is damaged", extra={"path": str(path)})
    return data
