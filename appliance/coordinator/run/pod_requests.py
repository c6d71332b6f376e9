"""The coordinator's requests to the job's pods. Pure."""

from collections.abc import Iterable

from appliance.core.cluster.run import RunSchedule, SimulatedStep
from appliance.core.plans.plan import Plan
from appliance.wire.requests.cluster_details import GangSize
from protos.appliance.appliance_service_pb2 import RunRequest
from protos.wsc.v1 import pods_pb2


def engine_load(
    session: int, plan_text: str, gang: GangSize, *, fan_out: int
) -> pods_pb2.LoadRequest:
    """Return what the weight, broadcastreduce and chief pods are loaded with.

    Args:
        session: Number of the session.
        plan_text: Text of the plan.
        gang: Size of the job.
        fan_out: Children of a SwarmX pod at most.
    """
    return pods_pb2.LoadRequest(
        session=session,
        plan=plan_text.encode(),
        num_systems=gang.num_systems,
        workers_per_system=gang.workers_per_system,
        fan_out=fan_out,
        num_shards=gang.num_shards,
    )


def input_load(
    session: int, plan: Plan, gang: GangSize, run: RunRequest, *, first_batch: int
) -> pods_pb2.LoadRequest:
    """Return what the activation and worker pods are loaded with.

    Args:
        session: Number of the session.
        plan: Says which tensors a batch has.
        gang: Size of the job.
        run: The client's run request, which a worker hands to its streamer as it is.
        first_batch: Batches that earlier sessions took from the same dataloader.
    """
    return pods_pb2.LoadRequest(
        session=session,
        num_systems=gang.num_systems,
        workers_per_system=gang.workers_per_system,
        batch_size=plan.batch_size,
        first_batch=first_batch,
        run_request=run.SerializeToString(),
        batch_tensors=[
            pods_pb2.BatchTensor(
                input_name=tensor.input_name,
                shape=tensor.type.shape,
                wire_dtype=tensor.wire_dtype.value,
                dtype=tensor.type.dtype.value,
            )
            for tensor in plan.inputs
        ],
    )


def start(session: int, schedule: RunSchedule) -> pods_pb2.StartRequest:
    """Return what every pod is started with."""
    return pods_pb2.StartRequest(
        session=session,
        num_steps=schedule.num_steps,
        output_interval=schedule.output_interval,
        checkpoint_steps=sorted(schedule.checkpoint_steps),
        first_step=schedule.first_step,
    )


def start_system(request: pods_pb2.StartRequest, simulated: SimulatedStep) -> pods_pb2.StartRequest:
    """Return what a system is started with that is told the simulated time of its steps."""
    found = pods_pb2.StartRequest()
    found.CopyFrom(request)
    found.simulated.seconds = simulated.seconds
    found.simulated.utilization = simulated.utilization
    found.simulated.weight_bytes = simulated.weight_bytes
    found.simulated.gradient_bytes = simulated.gradient_bytes
    return found


def commit(session: int, names: Iterable[str]) -> pods_pb2.CommitIngestRequest:
    """Return MemoryX's request for the tensors that were written into its store."""
    return pods_pb2.CommitIngestRequest(session=session, resource_names=names)
