"""The messages between management and agents: our values to and from those of `nodes.proto`."""

from collections.abc import Mapping

from appliance.cluster.launcher import PodExit, Survivor
from appliance.core.ids import JobId, PodName, Role
from protos.wsc.v1 import nodes_pb2 as pb


def pod_ended(end: PodExit) -> pb.PodEnded:
    """Return the message that reports a pod's end."""
    return pb.PodEnded(
        job=end.job,
        pod=end.pod,
        role=end.role.value,
        exit_code=end.exit_code,
        signal=end.signal or 0,
    )


def pod_exit(message: pb.PodEnded) -> PodExit:
    """Return the pod exit in a message."""
    return PodExit(
        job=JobId(message.job),
        pod=PodName(message.pod),
        role=Role(message.role),
        exit_code=message.exit_code,
        signal=message.signal or None,
    )


def held_job(job: JobId, held: Survivor) -> pb.HeldJob:
    """Return the message that reports what a node has of a job."""
    return pb.HeldJob(
        job=job,
        pids={str(name): pid for name, pid in held.pids.items()},
        exits=[pod_ended(end) for end in held.exits],
        is_stopped=held.is_stopped,
    )


def survivors(hello: pb.NodeHello) -> Mapping[JobId, Survivor]:
    """Return the pods of a joining node, by job."""
    return {
        JobId(held.job): Survivor(
            pids={PodName(name): pid for name, pid in held.pids.items()},
            exits=tuple(map(pod_exit, held.exits)),
            is_stopped=held.is_stopped,
        )
        for held in hello.jobs
    }
