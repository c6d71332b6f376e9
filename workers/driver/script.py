"""The user's script as a process of the user, with the environment that it was submitted with."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from appliance.core.cluster.drivers import DriverSpec
from appliance.core.cluster.pods import CLIENT_CONFIG_OPTION, PodSpec
from appliance.pods import parent_death as leash

_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
"""Exit codes by which shells, too, say so."""

_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptUser:
    """Whom a script runs as.

    Attributes:
        uid: User; None leaves it as it is.
        gid: Group; None leaves it as it is.
        groups: Other groups; None leaves them as they are.
        name: Login name.
        home: Home directory.
    """

    uid: int | None
    gid: int | None
    groups: tuple[int, ...] | None
    name: str
    home: str

    @classmethod
    def of(cls, uid_text: str, gid_text: str, login: str) -> "ScriptUser":
        """Return the user of these ids; ourselves where they are empty or we may not change.

        The login is the one that the driver was submitted with: its token stands for that name.
        """
        wanted = int(uid_text) if uid_text else os.geteuid()
        try:
            entry = pwd.getpwuid(wanted)
            name, home, login_gid = entry.pw_name, entry.pw_dir, entry.pw_gid
        except KeyError:  # a user that only the user node knows
            name, home, login_gid = str(wanted), "/", wanted
        if os.geteuid() != 0 or wanted == 0:
            return cls(uid=None, gid=None, groups=None, name=login or name, home=home)
        gid = int(gid_text) if gid_text else login_gid
        groups = tuple(os.getgrouplist(name, gid)) if name != str(wanted) else (gid,)
        return cls(uid=wanted, gid=gid, groups=groups, name=login or name, home=home)


class Script:
    """The user's script, which can be run more than once.

    Args:
        pod: The pod that runs it.
        driver: What to run.
        user: As whom.
        token: What the script's client shows to management.
    """

    def __init__(self, pod: PodSpec, driver: DriverSpec, user: ScriptUser, *, token: str) -> None:
        self._pod = pod
        self._driver = driver
        self._user = user
        self._token = token

    def run(self, restart_count: int) -> int:
        """Run it once, to its end.

        Returns:
            Its exit code; 128 and the number when a signal ended it, 126 or 127 when it cannot be
            run at all.
        """
        environment = self._environment(restart_count)
        program = shutil.which(
            self._driver.argv[0], path=environment["PATH"]
        ) or self._below_work_dir(self._driver.argv[0])
        if program is None:
            say(f"there is no program {self._driver.argv[0]!r} on PATH {environment['PATH']}")
            return _NOT_FOUND
        try:
            process = self._spawn(program, environment)
        except OSError as error:
            say(f"{program} cannot be run in {self._driver.work_dir}: {error}")
            return _NOT_EXECUTABLE
        code = process.wait()
        _end_group(process.pid)
        return 128 - code if code < 0 else code

    def _spawn(self, program: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", "-S", leash.__file__, str(os.getpid()), program]
        return subprocess.Popen(
            [*command, *self._driver.argv[1:]],
            stdin=subprocess.DEVNULL,
            cwd=self._driver.work_dir,
            env=environment,
            user=self._user.uid,
            group=self._user.gid,
            extra_groups=self._user.groups,
            start_new_session=True,
        )

    def _below_work_dir(self, program: str) -> str | None:
        path = os.path.normpath(os.path.join(self._driver.work_dir, program))
        return path if "/" in program and os.access(path, os.X_OK) else None

    def _environment(self, restart_count: int) -> dict[str, str]:
        ours = {
            "WSC_JOB": self._pod.job,
            "WSC_DRIVER": self._pod.job,
            "WSC_RESTART_COUNT": str(restart_count),
            "PYTHONUNBUFFERED": "1",
            "CSAUTH_TOKEN": self._token,
        }
        if self._driver.num_systems:
            ours["WSC_NUM_SYSTEMS"] = str(self._driver.num_systems)
        theirs = {"PATH": _PATH, "LANG": "C.UTF-8", **self._driver.environment}
        if config := self._pod.options.get(CLIENT_CONFIG_OPTION):
            theirs.setdefault("CSCONFIG_PATH", config)
        user = {"USER": self._user.name, "LOGNAME": self._user.name, "HOME": self._user.home}
        return {**theirs, **user, **ours}


def say(text: str) -> None:
    """Write a line of ours into the script's log."""
    sys.stdout.write(f"[driver] {text}\n")
    sys.stdout.flush()


def _end_group(group: int) -> None:
    """End what the script has left running in its process group."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
