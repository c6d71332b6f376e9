"""Ordinary users of this machine, and a place where they find what root has installed for itself.

Users are made by `useradd` and removed again. If Python and the client lie in a directory that is
closed to others, as below root's home, everything runs in a mount namespace in which exactly that
much of it is open; the machine itself is not changed.
"""

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.appliance import ROOT, Appliance
from tests.support.client import client_venv

_OPEN_UP = """
set -e
closed=$1; shift; aside=$(mktemp -d)
number=0
for path in "$@"; do
    number=$((number + 1)); mkdir "$aside/$number"; mount --bind "$path" "$aside/$number"
done
mount -t tmpfs -o mode=0755 tmpfs "$closed"
number=0
for path in "$@"; do
    number=$((number + 1)); mkdir -p "$path"; mount --bind "$aside/$number" "$path"
done
echo ready
exec sleep infinity
"""


@dataclass(frozen=True)
class Person:
    """An ordinary user.

    Attributes:
        name: Login name.
        uid: User id.
        gid: Group id.
        home: A directory that is theirs alone.
    """

    name: str
    uid: int
    gid: int
    home: Path

    def command(self, *words: str, **variables: str) -> list[str]:
        """Return what runs a command as this user, in their home, with these variables alone."""
        rights = [f"--reuid={self.uid}", f"--regid={self.gid}", "--init-groups"]
        told = {"HOME": str(self.home), "USER": self.name, "PATH": os.environ["PATH"], **variables}
        return [
            *("env", "-i", f"--chdir={self.home}"),
            *(f"{name}={value}" for name, value in told.items()),
            *("setpriv", *rights, "--", *words),
        ]


@dataclass
class SharedAppliance(Appliance):
    """An appliance that root runs where others find the client.

    Attributes:
        enter: What comes before a command that is to run there.
    """

    enter: Sequence[str] = ()

    def try_command(self, *arguments: str, program: str) -> subprocess.CompletedProcess[str]:
        """Run `appliance` or `csctl` there, whatever becomes of it."""
        if program == "appliance":
            arguments = (*arguments, "--data-dir", str(self.data_dir))
        command = ["env", f"--chdir={ROOT}", sys.executable, "-m", program, *arguments]
        return subprocess.run(
            [*self.enter, *command],
            env=os.environ | {"CSCONFIG_PATH": str(self.config_path)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )


@contextmanager
def made_user(name: str, home: Path) -> Iterator[Person]:
    """Make a user with a home that is closed to others, and remove both again."""
    subprocess.run(["useradd", "--no-create-home", "--user-group", name], check=True)
    try:
        entry = pwd.getpwnam(name)
        home.mkdir(mode=0o700)
        os.chown(home, entry.pw_uid, entry.pw_gid)
        yield Person(name=name, uid=entry.pw_uid, gid=entry.pw_gid, home=home)
    finally:
        subprocess.run(["userdel", "--force", name], check=False, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def open_to_all(*clients: Path) -> Iterator[Sequence[str]]:
    """Yield what comes before a command that is to find the client open to every user.

    Args:
        clients: Environments of clients; none for that of the training client.
    """
    needed = [*(clients or (client_venv(),)), Path(sys.base_prefix), Path(sys.prefix), ROOT]
    closed = next((each for each in map(_closed_above, needed) if each is not None), None)
    if closed is None:
        yield ()
        return
    below = [str(each) for each in needed if each.is_relative_to(closed)]
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _OPEN_UP, "sh"]
    holder = subprocess.Popen(
        [*command, str(closed), *below], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stderr is not None
    try:
        if holder.stdout.readline() != "ready\n":
            pytest.skip(f"{closed} is closed to users and stays so: {holder.stderr.read().strip()}")
        yield ("nsenter", "--target", str(holder.pid), "--mount", "--")
    finally:
        holder.kill()
        holder.communicate()


def _closed_above(path: Path) -> Path | None:
    """Return the topmost directory above a path that others cannot enter."""
    for each in reversed((path, *path.parents)):
        if not each.stat().st_mode & 0o001:
            return each
    return None
