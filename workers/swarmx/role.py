"""A broadcastreduce pod: one node of the SwarmX tree."""

import grpc

from appliance.core.cluster.swarmx_tree import MAX_FAN_OUT
from appliance.core.plans.plan import verify
from appliance.core.plans.plan_text import parse_plan
from appliance.core.plans.sparse.as_executed import as_executed
from appliance.pods.role_context import PodContext
from protos.wsc.v1 import pods_pb2
from workers.swarmx.session import BroadcastReduceSession


class BroadcastReduceRole:
    """The role of a broadcastreduce pod; see `appliance.pods.pod_sessions.PodRole`."""

    def __init__(self, context: PodContext) -> None:
        self._context = context

    def load(self, request: pods_pb2.LoadRequest) -> BroadcastReduceSession:
        """Create the streams of a session."""
        num_shards = request.num_shards or 1
        plan = parse_plan(request.plan.decode(), runs_updates=num_shards > 1)
        verify(plan)
        plan = as_executed(plan, request.num_shards or 1)
        return BroadcastReduceSession(
            self._context,
            number=request.session,
            plan=plan,
            num_systems=request.num_systems,
            fan_out=request.fan_out or MAX_FAN_OUT,
            num_shards=num_shards,
        )

    def add_services(self, server: grpc.Server) -> None:
        """Serve nothing beside `Pod`."""

    def close(self) -> None:
        """Hold nothing beyond sessions."""
