"""The user's script as a process of the user, with the environment that it was submitted with."""

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from appliance.core.addresses import split_address
from appliance.core.cluster.drivers import DEFAULT_PATH, VALUE_PREFIX, DriverSpec
from appliance.core.failure_causes import last_words, shortened
from appliance.core.pods.pod_options import DriverPodOptions
from appliance.core.pods.pod_spec import PodSpec
from appliance.core.proxy_variables import names_proxy, past_proxies
from appliance.core.visible_text import visible
from appliance.observability.redaction import Redaction, secrets_of
from appliance.pods.job_user import JobUser
from appliance.pods.oom_kills import OomKills
from appliance.pods.user_variables import user_variables
from appliance.user_code import user_exec
from appliance.user_code.user_exec import CannotStartError, Order

_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
"""Exit codes by which shells, too, say so."""

_SCRIPT_SITE = str(Path(__file__).parent / "script_site")
"""Comes first on the script's PYTHONPATH; its `sitecustomize` says what for."""

_CHUNK_BYTES = 1 << 16
_LAST_WORDS_SECONDS = 10.0
_TAIL_BYTES = 1 << 16
"""What is kept of the end of the output; a traceback of the client has some ten thousand."""


class Script:
    """The user's script, which can be run more than once.

    Args:
        pod: The pod that runs it.
        driver: What to run.
        user: As whom.
        token: What the script's client shows to management.
    """

    def __init__(self, pod: PodSpec, driver: DriverSpec, user: JobUser, *, token: str) -> None:
        self._pod = pod
        self._driver = driver
        self._user = user
        self._token = token
        self.last_words = ""
        """The last error that it printed when it last ran, or its last line."""

    def run(self, restart_count: int) -> int:
        """Run it once, to its end.

        Returns:
            Its exit code; 128 and the number when a signal ended it, 126 or 127 when it cannot be
            run at all.
        """
        environment = self._environment(restart_count)
        reader, writer = os.pipe()
        process = None
        try:
            process = user_exec.start(self._order(environment), output=writer)
        except CannotStartError as error:
            if error.is_missing and "/" not in self._driver.argv[0]:
                why = f"there is no program {self._driver.argv[0]!r} on PATH {environment['PATH']}"
            else:
                why = f"the script was not started: {error}"
            say(why)
            self.last_words = shortened(why)
            return _NOT_FOUND if error.is_missing else _NOT_EXECUTABLE
        except OSError as error:
            say(f"the appliance cannot start programs here, which is no fault of yours: {error}")
            return _NOT_EXECUTABLE
        finally:
            os.close(writer)
            if process is None:
                os.close(reader)
        read = (environment.get(name, "") for name in self._secret_names())
        redaction = Redaction((*secrets_of(environment), *read))
        tail, oom_kills = Tail(), OomKills()
        copying = threading.Thread(target=_copy, args=(reader, redaction, tail), daemon=True)
        copying.start()
        code = process.wait()
        _end_group(process.pid)
        copying.join(_LAST_WORDS_SECONDS)  # what has left the group may hold the other end for ever
        self.last_words = oom_kills.explain(code) or visible(last_words(tail.text))
        return 128 - code if code < 0 else code

    def _order(self, environment: Mapping[str, str]) -> Order:
        return Order(
            programs=self._driver.programs(environment["PATH"]),
            arguments=self._driver.argv[1:],
            environment=environment,
            directory=self._driver.work_dir,
            uid=self._user.uid,
            gid=self._user.gid,
            groups=self._user.groups,
        )

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
        options = self._pod.options_of(DriverPodOptions)
        given = user_variables(options)
        sent = self._driver.environment
        theirs = {"LANG": "C.UTF-8", **given, **sent, **self._read_variables()}
        paths = (theirs.get("PATH", "") or ("" if options.path else DEFAULT_PATH), options.path)
        theirs["PATH"] = ":".join(filter(None, paths))
        theirs["PYTHONPATH"] = ":".join(filter(None, (_SCRIPT_SITE, theirs.get("PYTHONPATH", ""))))
        if (
            options.client_config is not None
        ):  # the way to the cluster from here, not from a terminal
            theirs["CSCONFIG_PATH"] = str(options.client_config)
            if names_proxy(theirs):
                theirs = past_proxies(theirs, _own_hosts(options.client_config))
        user = {"USER": self._user.name, "LOGNAME": self._user.name, "HOME": self._home()}
        return {**theirs, **user, **ours}

    def _read_variables(self) -> Mapping[str, str]:
        """Return the variables whose values the kubelet has read; optional ones may be missing."""
        names = {name: VALUE_PREFIX + name for name in self._driver.value_from}
        return {name: os.environ[ours] for name, ours in names.items() if ours in os.environ}

    def _secret_names(self) -> Sequence[str]:
        value_from = self._driver.value_from.items()
        read = (name for name, each in value_from if "secretKeyRef" in each)
        return [*read, *self._pod.options_of(DriverPodOptions).redacted_variables]

    def _home(self) -> str:
        """Return the user's home; of a user unknown here, what the run says it is."""
        if self._user.home != "/":
            return self._user.home
        return self._driver.environment.get("HOME") or self._driver.work_dir


def _own_hosts(client_config: Path) -> Sequence[str]:
    """Return the hosts that a script reaches without a proxy: the appliance, and its own pod."""
    (cluster,) = json.loads(client_config.read_text())["clusters"]
    host, _ = split_address(cluster["server"])
    return (host, "localhost", "127.0.0.1", "::1")


def say(text: str) -> None:
    """Write a line of ours into the script's log."""
    sys.stdout.write(f"[driver] {visible(text)}\n")
    sys.stdout.flush()


class Tail:
    """The end of what a script printed."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, data: bytes) -> None:
        """Take note of what it printed next."""
        self._data = (self._data + data)[-_TAIL_BYTES:]

    @property
    def text(self) -> str:
        """It as text."""
        return self._data.decode(errors="replace")


def _copy(reader: int, redaction: Redaction, tail: Tail) -> None:
    """Copy what a script prints to our own output, its secrets taken out, and keep its end."""
    with os.fdopen(reader, "rb", buffering=0) as source:
        while data := source.read(_CHUNK_BYTES):
            _pass_on(redaction.feed(data), tail)
    _pass_on(redaction.rest(), tail)


def _pass_on(data: bytes, tail: Tail) -> None:
    tail.add(data)
    _show(data)


def _show(data: bytes) -> None:
    sys.stdout.flush()
    while data:
        data = data[os.write(sys.stdout.fileno(), data) :]


def _end_group(group: int) -> None:
    """End what the script has left running in its process group."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
