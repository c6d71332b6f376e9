"""Whether there is a program that a detached run could start, where runs start on this machine."""

import asyncio
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable

from appliance.core.cluster.drivers import DEFAULT_PATH, DriverSpec
from appliance.core.errors import UserError

_REMEMBERED_SECONDS = 10.0
_MAX_REMEMBERED = 1024

_PROGRAM = "a program"
_EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH

_Search = tuple[str, str, str]
"""Program, PATH and working directory."""


class ProgramCheck:
    """Looks for the programs of runs, in a thread, since a user's file system may not answer.

    Sweeps submit one program again and again, and the thread costs more than the rest of taking a
    run in. So where a program was found it is not looked for again for ten seconds.

    Args:
        now: Seconds of a clock that never goes backwards.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._found: OrderedDict[_Search, float] = OrderedDict()

    async def check(self, spec: DriverSpec) -> None:
        """Raise `UserError` if a run's program is nowhere that it would be looked for."""
        search = (spec.argv[0], spec.environment.get("PATH", ""), spec.work_dir)
        if self._now() < self._found.get(search, 0.0):
            return
        await asyncio.to_thread(check_program, spec)
        self._found[search] = self._now() + _REMEMBERED_SECONDS
        self._found.move_to_end(search)
        if len(self._found) > _MAX_REMEMBERED:
            self._found.popitem(last=False)


def check_program(spec: DriverSpec) -> None:
    """Raise `UserError` if a run's program is nowhere that it would be looked for.

    What this process may not look at may be there. Whether the user may execute it is found out
    when the run starts, with the user's rights.
    """
    path = spec.environment.get("PATH", "") or DEFAULT_PATH
    places = spec.programs(path)
    whats = [_what_is_at(os.path.join(spec.work_dir, place)) for place in places]
    if any(what is _PROGRAM for what in whats):
        return
    wrong = next((what for what in whats if what is not None), None)
    if wrong is not None and len(places) == 1:
        raise UserError(
            f"{spec.argv[0]!r} in {spec.work_dir} is {wrong}.",
            hint="Name what runs it, as in `csctl submit -- python train.py`.",
        )
    where = f" in {spec.work_dir}" if len(places) == 1 else f" on PATH {path}"
    raise UserError(
        f"There is no program {spec.argv[0]!r}{where} on the appliance's machine.",
        hint="Name one that is there, as in `csctl submit -- python train.py`.",
    )


def _what_is_at(path: str) -> str | None:
    """Return what is at a path: a program, for all that this process can see, or nothing."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return _PROGRAM
    if stat.S_ISDIR(mode):
        return "a directory"
    return _PROGRAM if mode & _EXECUTABLE else "not executable, by anybody"
