"""Which layer something belongs to: the unit whose weights a CS-2 holds at one time."""

from dataclasses import dataclass

from appliance.core.ir.graph import Direction

_STATE_PREFIX = "state.model."
_NAMELESS = "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKey:
    """A layer in one direction.

    Attributes:
        layer: Module path of the layer; empty outside of any module.
        direction: Forward, backward, or None where the program does not say.
    """

    layer: str
    direction: Direction | None

    def title(self) -> str:
        """Return a name for people, as in `blocks.3.fwd`."""
        layer = self.layer or _NAMELESS
        return f"{layer}.{self.direction.value}" if self.direction else layer


def layer_of_module(module: str) -> str:
    """Return the layer of a module: up to the first number in its path, else the module itself.

    `blocks.1.fc2` belongs to layer `blocks.1`; `head` is a layer of its own.
    """
    parts = module.split(".")
    for index, part in enumerate(parts):
        if part.isdigit():
            return ".".join(parts[: index + 1])
    return module


def layer_of_resource(resource_name: str) -> str:
    """Return the layer that owns a state tensor, as in `state.model.blocks.1.fc2.weight`."""
    path = resource_name.removeprefix(_STATE_PREFIX)
    module, _, _ = path.rpartition(".")
    return layer_of_module(module)
