"""`python -m appliance.cluster.kubernetes.hooks.trial`: uses an installation as a user would.

`helm test` runs it. Each port has to answer, with the certificate that users trust. Then a driver
is submitted, as with kubectl, whose script imports the client that users have: so the controller,
the database, the data volume, the scheduler, the user image and the pods' way to management all
have to work. What does not is said in one sentence with what to look at; the wsjob then stays.
"""

import argparse
import json
import secrets
import ssl
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from appliance.cluster.kubernetes.api import ApiServer
from appliance.cluster.kubernetes.object_kinds import WSJOB, Resource
from appliance.core.clock import Clock, SystemClock
from appliance.core.errors import ClusterError

_CALL_SECONDS = 30.0
_LOOK_SECONDS = 1.0
_UID = 10001
_FAILED = ("FAILED", "CANCELLED")


def unanswered(url: str, authority: Path) -> str:
    """Return what is wrong with the answer of a port; empty if it is as it should be."""
    try:
        context = ssl.create_default_context(cafile=str(authority))
        # The address is the chart's own.
        with urllib.request.urlopen(url, context=context, timeout=_CALL_SECONDS) as answer:
            found = json.load(answer)
    except (OSError, ValueError) as error:
        return f"{url} does not answer: {error}. See `kubectl logs` of management and the proxies."
    return "" if found == {"status": "ok"} else f"{url} answers {found}, and not that it is well."


def run_driver(
    api: ApiServer, name: str, command: Sequence[str], clock: Clock, *, patience_seconds: float
) -> Iterator[str]:
    """Submit a driver and wait for its end; yield how it fares, whenever that has changed.

    Args:
        api: The Kubernetes API.
        name: The wsjob's.
        command: What it runs.
        clock: Times the wait.
        patience_seconds: How long it may take.

    Raises:
        ClusterError: It has not succeeded.
    """
    api.create(WSJOB, {"metadata": {"name": name}, "spec": _spec(command)})
    pause, deadline, shown = threading.Event(), clock.monotonic_seconds() + patience_seconds, ""
    while True:
        status = _status(api.find(WSJOB, name))
        phase, message = str(status.get("phase", "not seen")), str(status.get("message") or "")
        if (told := f"wsjob {name}: {phase} {message}".rstrip()) != shown:
            yield (shown := told)
        if phase == "SUCCEEDED":
            api.delete(WSJOB, name)
            return
        is_late = clock.monotonic_seconds() > deadline
        if phase in _FAILED or is_late:
            after = "" if phase in _FAILED else f" after {patience_seconds:g} seconds"
            how = f"is {phase}{after}"
            raise ClusterError(
                f"The wsjob {name} {how}: {message or _WHY_NOT[phase == 'not seen']}."
            )
        pause.wait(_LOOK_SECONDS)


_WHY_NOT = {
    True: "no controller has looked at it; see `kubectl logs` of management",
    False: "see `kubectl describe wsjob` and `kubectl logs` of its pods",
}


def _spec(command: Sequence[str]) -> Resource:
    return {
        "user": {"uid": _UID, "gid": _UID, "name": "helm-test"},
        "driver": {"command": list(command), "workingDir": "/tmp"},
    }


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
    parser.add_argument("--namespace", default="", help="where; empty for our own")
    parser.add_argument("--patience-seconds", type=float, default=240.0)
    arguments = parser.parse_args(argv)
    wrong = [words for url in arguments.url if (words := unanswered(url, arguments.authority))]
    if arguments.wsjob and not wrong:
        name, patience = f"{arguments.wsjob}-{secrets.token_hex(4)}", arguments.patience_seconds
        try:
            api = ApiServer.connect(arguments.namespace)
            command, clock = arguments.command, SystemClock()
            for told in run_driver(api, name, command, clock, patience_seconds=patience):
                print(told, flush=True)  # noqa: T201 - what `helm test --logs` shows
        except ClusterError as error:
            wrong.append(str(error))
    print("\n".join(wrong) or "The installation works.")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
