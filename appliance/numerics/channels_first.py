"""Channels-last nodes as channels-first ones, so that every operation is written once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from appliance.core.ir.attributes import integers, text
from appliance.core.ir.graph import Attribute, Node
from appliance.core.ir.tensors import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelsFirst:
    """A channels-first node that computes what a channels-last one asks for.

    Attributes:
        node: The equivalent node.
        operands: Which operands are activations, whose last dim becomes dim 1 before.
        results: Which results are activations, whose dim 1 becomes the last one after.
    """

    node: Node
    operands: tuple[bool, ...]
    results: tuple[bool, ...]


def to_channels_first(
    node: Node, operand_shapes: Sequence[tuple[int, ...]]
) -> ChannelsFirst | None:
    """Return the channels-first equivalent of a node; None if it is not a channels-last one."""
    layout = node.attributes.get("data_format")
    if not isinstance(layout, str) or not layout.endswith("C"):
        return None
    attributes: dict[str, Attribute] = {
        **node.attributes,
        "data_format": "NC" + layout[1:-1],
    }
    if node.op == "Pool":
        for name in ("ksize", "strides", "dilation"):
            attributes[name] = _moved(integers(node, name))
        padding = integers(node, "padding")
        low, high = _moved(padding[::2]), _moved(padding[1::2])
        attributes["padding"] = tuple(size for pair in zip(low, high, strict=True) for size in pair)
    operands, results = _activations(node, operand_shapes)
    types = tuple(
        TensorType(_moved(type_.shape), type_.dtype) if moves else type_
        for type_, moves in zip(node.types, results, strict=True)
    )
    equivalent = replace(node, attributes=attributes, types=types)
    return ChannelsFirst(node=equivalent, operands=operands, results=results)


def _moved(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return (sizes[0], sizes[-1], *sizes[1:-1])


def move_types(types: Sequence[TensorType], moves: Sequence[bool]) -> list[TensorType]:
    """Return the operand types of the channels-first equivalent."""
    return [
        TensorType(_moved(type_.shape), type_.dtype) if moved else type_
        for type_, moved in zip(types, moves, strict=True)
    ]


def _activations(
    node: Node, operand_shapes: Sequence[tuple[int, ...]]
) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    if node.op == "Convolution":  # weights have the rank of activations, but a layout of their own
        is_weight_pass = text(node, "conv_pass_direction") == "BWD_KERNEL"
        return (True, is_weight_pass), (not is_weight_pass,)
    rank = len(node.types[0].shape)
    operands = tuple(len(shape) == rank for shape in operand_shapes)
    return operands, tuple(len(type_.shape) == rank for type_ in node.types)
