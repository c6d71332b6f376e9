"""The chief pod: one simulated CS-2."""

import grpc

from appliance.core.errors import InternalError
from appliance.core.plan import verify
from appliance.core.plan_text import parse_plan
from appliance.core.sharding import split_batch
from appliance.pods.context import PodContext
from protos.wsc.v1 import pods_pb2
from workers.csx.session import CsxSession, default_threads
from workers.csx.simulated import SimulatedTime

THREADS_OPTION = "threads"


class CsxRole:
    """The role of a chief pod; see `appliance.pods.sessions.PodRole`.

    Args:
        context: The pod; its index is the system's number.
    """

    def __init__(self, context: PodContext) -> None:
        self._context = context

    def load(self, request: pods_pb2.LoadRequest) -> CsxSession:
        """Make the plan ready to run on this system's share of the batch."""
        spec = self._context.spec
        plan = parse_plan(request.plan.decode())
        verify(plan)
        if not spec.index < request.num_systems <= plan.batch_size:
            raise InternalError(
                f"{spec.name} cannot take part in {request.num_systems} systems with a batch of "
                f"{plan.batch_size}."
            )
        threads = spec.options.get(THREADS_OPTION)
        return CsxSession(
            self._context,
            number=request.session,
            plan=plan,
            shard=split_batch(plan.batch_size, request.num_systems)[spec.index],
            num_systems=request.num_systems,
            num_threads=int(threads) if threads else default_threads(request.num_systems),
            simulated=SimulatedTime.of(plan, spec, request.num_systems),
        )

    def add_services(self, server: grpc.Server) -> None:
        """Serve nothing beside `Pod`."""

    def close(self) -> None:
        """Hold nothing beyond sessions."""
