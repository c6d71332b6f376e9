"""`python -m appliance.cluster.kubernetes.hooks.trial`: uses an installation as a user would.

`helm test` runs it. Each port has to answer, with the certificate that users trust. Then a driver
is submitted, as with kubectl, whose script trains with the client that users have and compares the
losses with PyTorch's own: so the controller, the database, the data volume, the scheduler, the user
image and the pods' ways to each other all have to work. What does not is said in one sentence with
what to look at; the wsjob then stays for a day.
"""

import argparse
import json
import os
import secrets
import ssl
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.cluster.kubernetes.api import ApiServer
from appliance.cluster.kubernetes.object_kinds import WSJOB, Resource, name_of
from appliance.core.clock import Clock, SystemClock
from appliance.core.errors import ClusterError

_CALL_SECONDS = 30.0
_LOOK_SECONDS = 1.0
_KEPT_SECONDS = 24 * 3600
_FAILED = ("FAILED", "CANCELLED")
_ENDED = (*_FAILED, "SUCCEEDED")
_COMPUTES = " What a user trains on it has the losses that PyTorch computes."


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """What is submitted.

    Attributes:
        name: The wsjob's.
        command: What it runs.
        uid: User id that it runs as.
    """

    name: str
    command: Sequence[str]
    uid: int

    def wsjob(self) -> Resource:
        """Return the object; its group is that of the user id, since a pod's may be root's."""
        return {
            "metadata": {"name": self.name},
            "spec": {
                "user": {"uid": self.uid, "name": "helm-test"},
                "ttlSecondsAfterFinished": _KEPT_SECONDS,
                "driver": {"command": list(self.command), "workingDir": "/tmp"},
            },
        }


def unanswered(url: str, authority: Path) -> str:
    """Return what is wrong with the answer of a port; empty if it is as it should be."""
    try:
        context = ssl.create_default_context(cafile=str(authority))
        # The address is the chart's own, and no proxy leads there.
        ways = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
        with urllib.request.build_opener(*ways).open(url, timeout=_CALL_SECONDS) as answer:
            found = json.load(answer)
    except (OSError, ValueError) as error:
        return f"{url} does not answer: {error}. See `kubectl logs` of management and the proxies."
    return "" if found == {"status": "ok"} else f"{url} answers {found}, and not that it is well."


def run_driver(
    api: ApiServer, driver: Driver, clock: Clock, *, patience_seconds: float
) -> Iterator[str]:
    """Submit a driver and wait for its end; yield how it fares, whenever that has changed.

    Args:
        api: The Kubernetes API.
        driver: What is submitted.
        clock: Times the wait.
        patience_seconds: How long it may take.

    Raises:
        ClusterError: It has not succeeded.
    """
    name = driver.name
    api.create(WSJOB, driver.wsjob())
    pause, deadline, shown = threading.Event(), clock.monotonic_seconds() + patience_seconds, ""
    while True:
        status = _status(api.find(WSJOB, name))
        phase, message = (
            str(status.get("phase", "not seen")),
            str(status.get("message") or "").rstrip("."),
        )
        if (told := f"wsjob {name}: {phase} {message}".rstrip()) != shown:
            yield (shown := told)
        if phase == "SUCCEEDED":
            api.delete(WSJOB, name)
            return
        if phase in _FAILED:
            raise ClusterError(f"The wsjob {name} is {phase}: {message or _WHY_NOT}.")
        if clock.monotonic_seconds() > deadline:
            why = message or (_WHY_NOT if status else _UNSEEN)
            waiting = "; ".join((why, *_unfinished(api, status)))
            raise ClusterError(
                f"The wsjob {name} is {phase} after {patience_seconds:g} seconds: {waiting}."
            )
        pause.wait(_LOOK_SECONDS)


_UNSEEN = "no controller has looked at it; see `kubectl logs` of management"
_WHY_NOT = "see `kubectl describe wsjob` and `kubectl logs` of its pods"


def _unfinished(api: ApiServer, driver: Mapping[str, Any]) -> Iterator[str]:
    """Yield how the jobs of a driver's script fare: it waits for these while it runs itself."""
    workflow = driver.get("workflow")
    for job in api.list(WSJOB)[0] if workflow else ():
        status = _status(job)
        phase, kind = status.get("phase"), status.get("type")
        if status.get("workflow") == workflow and kind != "driver" and phase not in _ENDED:
            message = str(status.get("message") or _WHY_NOT).rstrip(".")
            yield f"its {kind} job {name_of(job)} is {phase}: {message}"


# `Any`: part of an object.
def _status(resource: Resource | None) -> Mapping[str, Any]:
    return (resource or {}).get("status") or {}


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m appliance.cluster.kubernetes.hooks.trial")
    parser.add_argument("--url", action="append", default=[], help="answers that it is well")
    parser.add_argument("--authority", type=Path, required=True, help="who vouches for these")
    parser.add_argument("--wsjob", default="", help="begin of the name of a driver to run")
    parser.add_argument("--command", action="append", default=[], help="a word of what it runs")
    parser.add_argument("--uid", type=int, default=os.getuid(), help="user id that it runs as")
    parser.add_argument("--namespace", default="", help="where; empty for our own")
    parser.add_argument("--patience-seconds", type=float, default=270.0)
    arguments = parser.parse_args(argv)
    wrong = [words for url in arguments.url if (words := unanswered(url, arguments.authority))]
    if arguments.wsjob and not wrong:
        name, patience = f"{arguments.wsjob}-{secrets.token_hex(4)}", arguments.patience_seconds
        driver = Driver(name=name, command=arguments.command, uid=arguments.uid)
        try:
            api = ApiServer.connect(arguments.namespace)
            for told in run_driver(api, driver, SystemClock(), patience_seconds=patience):
                print(told, flush=True)  # noqa: T201 - what `helm test --logs` shows
        except ClusterError as error:
            wrong.append(str(error))
    well = "The installation works." + (_COMPUTES if arguments.wsjob else "")
    print("\n".join(wrong) or well)  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
