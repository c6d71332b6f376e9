"""The chief pod: one simulated CS-2."""

import gc
import sys
import weakref
from collections.abc import Callable

import grpc

from appliance.core.cluster.swarmx_tree import MAX_FAN_OUT, pod_above, swarmx_tree
from appliance.core.errors import InternalError
from appliance.core.ir.graph_text import parse_type
from appliance.core.ir.sharding import split_batch
from appliance.core.plans.plan import verify
from appliance.core.plans.plan_text import parse_plan
from appliance.core.plans.sparse.as_executed import as_executed
from appliance.core.pods.pod_options import ChiefPodOptions, StreamMode
from appliance.core.pods.pod_spec import PodSpec
from appliance.numerics.devices import find_device
from appliance.pods.role_context import PodContext
from protos.wsc.v1 import pods_pb2, pods_pb2_grpc
from workers.csx.executor import set_compute_threads
from workers.csx.kernels_servicer import KernelsServicer
from workers.csx.repack import Packed
from workers.csx.samples.strand_count import num_strands
from workers.csx.session import CsxSession, default_threads
from workers.csx.simulated import SimulatedTime
from workers.csx.system_plan import SystemPlan, system_part


def threads_of(spec: PodSpec, *, num_systems: int) -> int:
    """Return the threads of a system: its share of its own node, from the spec.

    Args:
        spec: The system's pod.
        num_systems: Systems that share this machine if the spec says nothing.
    """
    return spec.options.torch_threads or default_threads(num_systems)


class CsxRole:
    """The role of a chief pod; see `appliance.pods.pod_sessions.PodRole`.

    Args:
        context: The pod; its index is the system's number.
        count_strands: Says into how many parts the threads divide the samples.
    """

    def __init__(
        self, context: PodContext, *, count_strands: Callable[..., int] = num_strands
    ) -> None:
        self._context, self._count_strands = context, count_strands
        self._session: weakref.ref[CsxSession] | None = None

    def load(self, request: pods_pb2.LoadRequest) -> CsxSession:
        """Make the plan ready to run on this system's share of the batch.

        Raises:
            UserError: The device that systems are to compute on is not there.
            InternalError: The system has no share of the batch.
        """
        spec = self._context.spec
        device = find_device(spec.options_of(ChiefPodOptions).device, spec.index)
        num_threads = threads_of(spec, num_systems=request.num_systems)
        set_compute_threads(num_threads)
        packed = self._read(request, num_threads, is_on_cpu=device is None)
        # The plan is gone: what it took goes back to the system before anything lasting is made.
        parse_type.cache_clear()
        sys._clear_type_cache()  # it holds the names that attributes were last looked up by
        gc.collect()
        part, simulated = packed.make()
        pods = swarmx_tree(request.num_systems, fan_out=request.fan_out or MAX_FAN_OUT)
        session = CsxSession(
            self._context,
            number=request.session,
            part=part,
            broadcast_from=pod_above(pods, spec.index),
            num_threads=max(1, num_threads // len(part.strands)),
            device=device,
            simulated=simulated,
        )
        # Not held: what a session takes is free once it is finished.
        self._session = weakref.ref(session)
        return session

    def _read(
        self, request: pods_pb2.LoadRequest, num_threads: int, *, is_on_cpu: bool
    ) -> Packed[tuple[SystemPlan, SimulatedTime]]:
        """Read the plan and serialise the part that this system needs."""
        spec, num_systems = self._context.spec, request.num_systems
        mode = spec.options_of(ChiefPodOptions).streams
        num_shards = request.num_shards or 1
        # Only who maps the shards of MemoryX asks where a value lies; that takes the updates.
        asks_where = mode is StreamMode.MAPPED and num_shards > 1
        plan = parse_plan(request.plan.decode(), runs_updates=asks_where)
        verify(plan)
        plan = as_executed(plan, request.num_shards or 1)
        if not spec.index < num_systems <= plan.batch_size:
            raise InternalError(
                f"{spec.name} cannot take part in {num_systems} systems with a batch of "
                f"{plan.batch_size}."
            )
        share = split_batch(plan.batch_size, num_systems)[spec.index]
        strands = 1  # of a device; threads are for operations of the processor
        if is_on_cpu:
            strands = self._count_strands(
                plan, share, num_systems=num_systems, num_threads=num_threads
            )
        part = system_part(
            plan,
            share,
            num_systems=num_systems,
            num_shards=num_shards,
            mode=mode,
            keep_bytes=spec.options_of(ChiefPodOptions).keep_weight_bytes,
            num_strands=strands,
            is_on_processor=is_on_cpu,
        )
        return Packed((part, SimulatedTime.of(plan, spec, num_systems)))

    def add_services(self, server: grpc.Server) -> None:
        """Serve `Kernels` beside `Pod`."""
        servicer = KernelsServicer(self._loaded)
        pods_pb2_grpc.add_KernelsServicer_to_server(servicer, server)

    def _loaded(self) -> CsxSession | None:
        return None if self._session is None else self._session()

    def close(self) -> None:
        """Hold nothing beyond sessions."""
