"""Finds the files of a run's checkpoints on this machine.

The client writes the files itself and tells nobody where. What the appliance knows is when it had
fetched each state. So files of the client's format that were written in that time are looked for,
below the run's directory and the directories that its arguments name, as the user that the
appliance runs as: files of other users are not looked for.
"""

import datetime as dt
import os
import re
import shlex
import socket
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.core.cluster.records import CHECKPOINT_EVENT, EventRecord
from appliance.core.ids import JobId
from appliance.core.queries.run_line import RunLine

_FORMAT = b"\x89HDF\r\n\x1a\n"
"""What a file begins with that the client's `save` has written."""
_LOGS = "cerebras_logs"
"""The client's artifact directory in that of the script, or, with the Model Zoo, in `model_dir`."""
_MOST_ENTRIES = 20_000
_MOST_LEVELS = 5
_MOST_BYTES_OF_PARAMETERS = 1 << 20
_SLACK = dt.timedelta(seconds=2)
"""So much later than the client has left a state its file may be closed."""
_NOT_ENTERED = frozenset({"executors", "site-packages", "node_modules", "__pycache__"})
_STEP = re.compile(r"step (\d+)")
_MODEL_DIR = re.compile(r"^\s*model_dir:\s*(\S.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile:
    """A file that may be a checkpoint's.

    Attributes:
        path: Where it is.
        num_bytes: Its size.
        written_at: When it was last written.
    """

    path: str
    num_bytes: int
    written_at: dt.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A state that a run's client has fetched.

    Attributes:
        job: The job that had it.
        at: When the client had left it.
        state: Its session, step, number of tensors and their size, in words.
        files: Files that were written meanwhile: one, if no other run wrote there.
    """

    job: JobId
    at: dt.datetime
    state: str
    files: Sequence[CheckpointFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a run's files are looked for.

    Attributes:
        directories: Below these; none if they cannot be looked through.
        explanation: Why there are none, or which there are.
    """

    directories: Sequence[Path]
    explanation: str


def places(run: RunLine) -> Places:
    """Return where files of a run may be, by its directory and arguments."""
    host, _, directory = run.work_dir.rpartition(":") if run.driver is None else ("", "", "")
    directory = directory or run.work_dir
    if not directory:
        return Places(directories=(), explanation="The run's directory is not known.")
    if host and host != socket.gethostname():
        return Places(directories=(), explanation=f"The files are on {host}.")
    if run.user.uid != os.geteuid():
        return Places(
            directories=(),
            explanation="The appliance looks at no files of other users than its own.",
        )
    own = Path(directory) if run.driver is not None else _around(Path(directory))
    named = [_within(own, word) for word in _words(run.argv)]
    named += [_within(own, name) for path in named for name in _model_directories(path)]
    found = [own, *(path for path in named if os.path.isdir(path) and not path.is_relative_to(own))]
    unique = list(dict.fromkeys(found))
    return Places(
        directories=unique, explanation=f"Looked for below {', '.join(map(str, unique))}."
    )


def _within(own: Path, name: str) -> Path:
    return Path(os.path.normpath(own / name))


def _around(artifact_dir: Path) -> Path:
    """Return the directory of a script in a terminal, which tells its artifact directory alone."""
    parts = artifact_dir.parts
    if _LOGS in parts:
        return Path(*parts[: parts.index(_LOGS)])
    return artifact_dir.parent


def find_files(directories: Sequence[Path], since: dt.datetime) -> Sequence[CheckpointFile]:
    """Return the files of the client's format below directories, oldest first.

    Args:
        since: Files that were written before are not looked at.
    """
    found = {
        file.path: file
        for directory in directories
        for file in _files(directory, since - _SLACK)
        if _has_format(file.path)
    }
    return sorted(found.values(), key=lambda file: file.written_at)


def checkpoints(
    events: Sequence[EventRecord], files: Sequence[CheckpointFile], since: dt.datetime
) -> Sequence[Checkpoint]:
    """Return a run's checkpoints, oldest first, each with the files written in its time.

    Args:
        events: What has happened to the run's jobs, in the order of time.
        files: Those that may be checkpoints.
        since: When the run began.
    """
    made, before = [], since
    for event in events:
        if event.reason != CHECKPOINT_EVENT:
            continue
        written = [file for file in files if before < file.written_at <= event.at + _SLACK]
        made.append(
            Checkpoint(
                job=event.job, at=event.at, state=event.message, files=_likely(written, event)
            )
        )
        before = event.at
    return made


def _likely(files: Sequence[CheckpointFile], event: EventRecord) -> Sequence[CheckpointFile]:
    """Return those of some files whose names have the step's number, or all if none has it."""
    step = _STEP.search(event.message)
    number = re.compile(rf"(?<!\d)0*{step[1]}(?!\d)") if step else None
    named = [file for file in files if number and number.search(os.path.basename(file.path))]
    return named or files


def _words(argv: Sequence[str]) -> Iterator[str]:
    """Yield the arguments that may name a file, those of `sh -c` and of `--option=value` too."""
    for argument in argv[1:]:
        try:
            words = shlex.split(argument) if " " in argument else []
        except ValueError:  # not meant for a shell
            words = []
        for word in (argument, *words):
            yield word.partition("=")[2] if word.startswith("-") else word


def _model_directories(parameters: Path) -> Sequence[str]:
    """Return what a file of parameters calls `model_dir`, as the Model Zoo's do."""
    if parameters.suffix not in (".yaml", ".yml"):
        return ()
    try:
        with parameters.open("rb") as file:
            text = file.read(_MOST_BYTES_OF_PARAMETERS).decode("utf-8", "replace")
    except (OSError, ValueError):  # a zero byte in a name is the latter
        return ()
    return [name.strip("'\"") for name in _MODEL_DIR.findall(text)]


def _files(directory: Path, since: dt.datetime) -> Iterator[CheckpointFile]:
    """Yield regular files below a directory; links are not followed, and large trees are cut."""
    waiting, left = deque([(str(directory), 0)]), _MOST_ENTRIES
    while waiting:
        place, level = waiting.popleft()
        try:
            entries = list(os.scandir(place))
        except OSError:
            continue
        left -= len(entries)
        if left < 0:
            return
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(found.st_mode):
                is_own = entry.name not in _NOT_ENTERED and not entry.name.startswith(".")
                waiting += [(entry.path, level + 1)] if is_own and level < _MOST_LEVELS else []
                continue
            at = dt.datetime.fromtimestamp(found.st_mtime, dt.UTC)
            if stat.S_ISREG(found.st_mode) and at >= since:
                yield CheckpointFile(path=entry.path, num_bytes=found.st_size, written_at=at)


def _has_format(path: str) -> bool:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.read(file, len(_FORMAT)) == _FORMAT
    except OSError:
        return False
    finally:
        os.close(file)
