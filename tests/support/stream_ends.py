"""Ends of streams between hosts, all of them in this process."""

import contextlib
import queue

from appliance.core.clock import SystemClock
from appliance.core.ids import JobId, Role
from appliance.core.pods.pod_spec import PodSpec
from appliance.streams.endpoint import StreamEndpoint
from appliance.streams.network.options import NetworkOptions

_NODES = {
    "broadcastreduce-0": "a",
    "weight-0": "a",
    "chief-0": "b",
    "chief-1": "c",
    "chief-2": "c",
    "chief-3": "a",
}


class Ends:
    """Pods of one job on several hosts, all in this process.

    Args:
        directory: Where each host has its sockets.
        options: Network options that differ from the default.
    """

    def __init__(self, directory, **options):
        self._directory = directory
        self._options = NetworkOptions(**{"key": b"the job's key", **options})
        self._stack = contextlib.ExitStack()
        self.failures = queue.Queue()

    def pod(self, role, index=0, *, at="", **options):
        """Return a pod's end of its streams; `at` is where it believes that the writers are."""
        host = _NODES[f"{role}-{index}"]
        runtime_dir = self._directory / host
        runtime_dir.mkdir(exist_ok=True)
        spec = PodSpec(
            job=JobId("wsjob-test"),
            role=Role(role),
            index=index,
            runtime_dir=runtime_dir,
            work_dir=self._directory,
            management_address="",
            nodes=_NODES,
        )
        end = StreamEndpoint(spec, clock=SystemClock(), on_failure=self.failures.put)
        end._options = self._options if not options else NetworkOptions(**options)
        end.listen()
        self._stack.callback(end.close)
        end.meet({"broadcastreduce-0": at, "weight-0": at})
        return end

    def ring(self, end, session=1, *, num_slots=3, slot_bytes=64, num_readers=1):
        """Return a ring that a pod serves."""
        ring = end.serve_ring(
            session,
            "broadcast-0",
            num_slots=num_slots,
            slot_bytes=slot_bytes,
            num_readers=num_readers,
        )
        return self._stack.enter_context(ring)

    def reader(self, end, session=1, **options):
        """Return a pod's reader of that ring."""
        return self._stack.enter_context(end.connect_ring(session, "broadcast-0", **options))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()
