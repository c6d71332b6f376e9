"""A PostgreSQL server of the test run's own: a private cluster in a temporary directory."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SYSTEM_USER = "postgres"


def find_programs() -> Path | None:
    """Return the directory of the newest PostgreSQL's programs; None if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


def reason_to_skip() -> str:
    """Return why no server can be started here; empty if one can."""
    if find_programs() is None:
        return "PostgreSQL is not installed: apt-get install postgresql"
    if os.getuid() == 0 and not _has_user(_SYSTEM_USER):
        return "PostgreSQL does not run as root, and there is no user postgres"
    return ""


@contextmanager
def running_postgres() -> Iterator[str]:
    """Start a server that listens on a Unix socket alone; yield its URL without a database."""
    programs = find_programs()
    assert programs is not None
    directory = Path(tempfile.mkdtemp(prefix="wsc-pg"))
    user = _SYSTEM_USER if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    if os.getuid() == 0:
        shutil.chown(directory, user)
    as_user = {"user": user, "cwd": directory} if os.getuid() == 0 else {"cwd": directory}
    data = directory / "data"
    initdb = [programs / "initdb", "-D", data, "-U", user, "-A", "trust", "-N", "-E", "UTF8"]
    subprocess.run(initdb, check=True, capture_output=True, **as_user)
    options = f"-k {directory} -c listen_addresses= -c fsync=off -c max_connections=50"
    control = [programs / "pg_ctl", "-D", data, "-w"]
    try:
        log = directory / "log"
        subprocess.run(
            [*control, "-l", log, "-o", options, "start"],
            check=True,
            stdout=subprocess.DEVNULL,
            **as_user,
        )
        yield f"postgresql+psycopg://{user}@/{{name}}?host={directory}"
    finally:
        stop = [*control, "-m", "immediate", "stop"]
        subprocess.run(stop, capture_output=True, check=False, **as_user)
        shutil.rmtree(directory, ignore_errors=True)


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
