"""Which pods run on which nodes."""

from collections.abc import Mapping

from appliance.core.ids import Role

NODE_ROLE: Mapping[Role, str] = {
    Role.COORDINATOR: "management",
    Role.DRIVER: "management",
    Role.WEIGHT: "memory",
    Role.BROADCASTREDUCE: "broadcastreduce",
    Role.CHIEF: "activation",
    Role.ACTIVATION: "activation",
    Role.WORKER: "worker",
}
"""The role that a node has to have for a pod of a role; a CS-2's two pods run side by side."""
