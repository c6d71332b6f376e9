"""`python -m appliance.cluster.kubernetes.uninstall`: ends all jobs before removal.

The chart runs it before it is uninstalled. Without it, wsjobs of running jobs would retain their
finalizers with nothing left to remove them, and their namespace could never be deleted.
"""

import argparse
import logging
import sys
import threading
from collections.abc import Sequence

from appliance.cluster.kubernetes.api import ApiServer
from appliance.cluster.kubernetes.object_kinds import FINALIZER, WSJOB, Resource, name_of
from appliance.core.clock import Clock, SystemClock
from appliance.observability.logging import configure_logging

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0


def end_jobs(api: ApiServer, clock: Clock, *, patience_seconds: float) -> int:
    """Delete the wsjobs of unfinished jobs, and wait until their controller has ended them.

    Args:
        api: The Kubernetes API.
        clock: Times the wait.
        patience_seconds: A controller that has not done so by then is none: finalizers are then
            taken away, and Kubernetes clears away what belongs to the wsjobs.

    Returns:
        How many finalizers had to be taken away.
    """
    pause = threading.Event()
    deadline = clock.monotonic_seconds() + patience_seconds
    for wsjob in _held(api):
        api.delete(WSJOB, name_of(wsjob))
    while (left := _held(api)) and clock.monotonic_seconds() < deadline:
        pause.wait(_LOOK_SECONDS)
    for wsjob in left:
        logger.warning("Finalizer is taken away", extra={"job": name_of(wsjob)})
        others = [each for each in wsjob["metadata"]["finalizers"] if each != FINALIZER]
        api.patch(WSJOB, name_of(wsjob), {"metadata": {"finalizers": others}})
    return len(left)


def _held(api: ApiServer) -> Sequence[Resource]:
    wsjobs, _ = api.list(WSJOB)
    return [each for each in wsjobs if FINALIZER in each["metadata"].get("finalizers", ())]


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m appliance.cluster.kubernetes.uninstall")
    parser.add_argument("--patience-seconds", type=float, default=60.0, help="for the controller")
    parser.add_argument("--namespace", default="", help="where; empty for our own")
    arguments = parser.parse_args(argv)
    configure_logging(as_json=True, level=logging.INFO, stream=sys.stderr)
    api = ApiServer.connect(arguments.namespace)
    end_jobs(api, SystemClock(), patience_seconds=arguments.patience_seconds)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
