"""`python -m appliance.cluster.kubernetes.hooks.uninstall`: ends jobs and management, for removal.

The chart runs it before it is uninstalled. Helm deletes management's rights together with its pods,
so whatever is to be given back is given back before: running jobs end, management is scaled to zero
and gives up its Lease, and what management alone has made (its Lease, the systems, the wsjobs of
clients' jobs) is removed. Without it, wsjobs of running jobs would retain their finalizers with
nothing left to remove them, and their namespace could never be deleted.
"""

import argparse
import http
import logging
import sys
import threading
from collections.abc import Sequence

from appliance.cluster.kubernetes.api import ApiError, ApiServer
from appliance.cluster.kubernetes.gangs import is_ended
from appliance.cluster.kubernetes.object_kinds import (
    DEPLOYMENT,
    FINALIZER,
    JOB_LABEL,
    LEASE,
    POD,
    WSCSYSTEM,
    WSJOB,
    Kind,
    Resource,
    job_label,
    name_of,
)
from appliance.core.clock import Clock, SystemClock
from appliance.observability.logging import configure_logging

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0


def end_jobs(apis: Sequence[ApiServer], clock: Clock, *, patience_seconds: float) -> int:
    """Delete the wsjobs of unfinished jobs, and wait until their controller has ended them.

    Args:
        apis: The namespaces that jobs are in.
        clock: Times the wait.
        patience_seconds: A controller that has not done so by then is none: finalizers are then
            taken away, and Kubernetes clears away what belongs to the wsjobs.

    Returns:
        How many finalizers had to be taken away.
    """
    pause = threading.Event()
    deadline = clock.monotonic_seconds() + patience_seconds
    for api, wsjob in _held(apis):
        api.delete(WSJOB, name_of(wsjob))
    while (left := _held(apis)) and clock.monotonic_seconds() < deadline:
        pause.wait(_LOOK_SECONDS)
    for api, wsjob in left:
        logger.warning("Finalizer is taken away", extra={"job": name_of(wsjob)})
        others = [each for each in wsjob["metadata"]["finalizers"] if each != FINALIZER]
        api.patch(WSJOB, name_of(wsjob), {"metadata": {"finalizers": others}})
    return len(left)


def stop_management(
    api: ApiServer, clock: Clock, *, deployment: str, lease: str, patience_seconds: float
) -> bool:
    """Scale management to zero and wait until nobody leads.

    Args:
        api: The Kubernetes API.
        clock: Times the wait.
        deployment: Management's Deployment.
        lease: The Lease of the one that leads.
        patience_seconds: A Lease that is held for longer is taken away all the same.

    Returns:
        Whether the Lease was given back in time.
    """
    pause = threading.Event()
    deadline = clock.monotonic_seconds() + patience_seconds
    api.patch(DEPLOYMENT, deployment, {"spec": {"replicas": 0}}, subresource="scale")
    num_free = 0
    # Once more than once: one that waited for the lead may have it for a moment on its way down.
    while num_free < 2 and clock.monotonic_seconds() < deadline:
        pause.wait(_LOOK_SECONDS)
        num_free = 0 if _holder(api, lease) else num_free + 1
    if holder := _holder(api, lease):
        logger.warning("Management has not given back its Lease", extra={"holder": holder})
    return not holder


def clear(apis: Sequence[ApiServer], *, lease: str, test_pod: str = "") -> None:
    """Remove what a management that is gone has made, and the next one makes anew.

    Args:
        apis: The namespaces that jobs are in, management's own first.
        lease: The Lease of the one that led.
        test_pod: What `helm test` has left for its log, if anything; empty for nothing.
    """
    own = apis[0]
    if test_pod:
        own.delete(POD, test_pod)
    for system in _objects(own, WSCSYSTEM):
        own.delete(WSCSYSTEM, name_of(system))
    for api in apis:
        for wsjob in _objects(api, WSJOB):
            if job_label(wsjob) == name_of(wsjob):
                api.delete(WSJOB, name_of(wsjob))
        for pod in filter(is_ended, api.list(POD, JOB_LABEL)[0]):  # they hold what they mount
            api.delete(POD, name_of(pod))
    own.delete(LEASE, lease)


def _held(apis: Sequence[ApiServer]) -> Sequence[tuple[ApiServer, Resource]]:
    return [
        (api, each)
        for api in apis
        for each in _objects(api, WSJOB)
        if FINALIZER in each["metadata"].get("finalizers", ())
    ]


def _objects(api: ApiServer, kind: Kind) -> Sequence[Resource]:
    """Return the objects of a kind; none if its definition is gone, and they with it."""
    try:
        return api.list(kind)[0]
    except ApiError as error:
        if error.status != http.HTTPStatus.NOT_FOUND:
            raise
        return ()


def _holder(api: ApiServer, lease: str) -> str:
    spec = (api.find(LEASE, lease) or {}).get("spec") or {}
    return str(spec.get("holderIdentity") or "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m appliance.cluster.kubernetes.hooks.uninstall")
    parser.add_argument("--patience-seconds", type=float, default=60.0, help="for each wait")
    parser.add_argument("--deployment", required=True, help="management's")
    parser.add_argument("--lease", required=True, help="of the management that leads")
    parser.add_argument("--test-pod", default="", help="that `helm test` has left, if it has")
    parser.add_argument("--namespace", default="", help="where; empty for our own")
    parser.add_argument(
        "--session-namespace", action="append", default=[], help="another one with jobs"
    )
    arguments = parser.parse_args(argv)
    configure_logging(as_json=True, level=logging.INFO, stream=sys.stderr)
    api, clock, patience = (
        ApiServer.connect(arguments.namespace),
        SystemClock(),
        arguments.patience_seconds,
    )
    apis = [api, *map(api.in_namespace, arguments.session_namespace)]
    end_jobs(apis, clock, patience_seconds=patience)
    stop_management(
        api,
        clock,
        deployment=arguments.deployment,
        lease=arguments.lease,
        patience_seconds=patience,
    )
    clear(apis, lease=arguments.lease, test_pod=arguments.test_pod)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
