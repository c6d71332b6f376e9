"""The broadcastreduce pod."""

import grpc

from appliance.core.plan import verify
from appliance.core.plan_text import parse_plan
from appliance.pods.context import PodContext
from appliance.swarmx.session import BroadcastReduceSession
from protos.wsc.v1 import pods_pb2

FAN_IN_OPTION = "fan_in"
DEFAULT_FAN_IN = 4


class BroadcastReduceRole:
    """The role of a broadcastreduce pod; see `appliance.pods.sessions.PodRole`.

    Args:
        context: The pod.
    """

    def __init__(self, context: PodContext) -> None:
        self._context = context
        self._fan_in = int(context.spec.options.get(FAN_IN_OPTION, DEFAULT_FAN_IN))

    def load(self, request: pods_pb2.LoadRequest) -> BroadcastReduceSession:
        """Create the streams of a session."""
        plan = parse_plan(request.plan.decode())
        verify(plan)
        return BroadcastReduceSession(
            self._context,
            number=request.session,
            plan=plan,
            num_systems=request.num_systems,
            fan_in=self._fan_in,
        )

    def add_services(self, server: grpc.Server) -> None:
        """Serve nothing beside `Pod`."""

    def close(self) -> None:
        """Hold nothing beyond sessions."""
