"""A plan as text: what is stored and sent between pods; parsing it gives an equal plan.

Sections of one line for each entry, in the order of `Plan`'s fields; nodes are written as in
`appliance.core.ir.graph_text`. Types are written once, beside the value's name, and constants in
full.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from appliance.core.errors import InternalError
from appliance.core.ir.graph import Direction, Node
from appliance.core.ir.graph_text import (
    LocationCodec,
    parse_node,
    parse_outline,
    parse_type,
    print_node,
)
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.plan import (
    Commit,
    Execution,
    InputTensor,
    LayerStep,
    Output,
    Plan,
    Precision,
    StateTensor,
    Sum,
    Update,
)
from appliance.core.plans.sparse_weight import SparseWeight

FORMAT = 6
"""Version of the text; another one is refused."""


def print_plan(plan: Plan, *, with_locations: bool = True) -> str:
    """Return a plan as text.

    Args:
        with_locations: Whether nodes say where in the user's code they come from.
    """
    locations = LocationCodec() if with_locations else None
    return "\n".join(_lines(plan, locations)) + "\n"


def _lines(plan: Plan, locations: LocationCodec | None) -> Iterator[str]:
    head = {
        "key": plan.key,
        "batch_size": plan.batch_size,
        "micro_batch_size": plan.micro_batch_size,
        "precision": plan.precision.value,
        "execution": plan.execution.value,
    }
    yield f"plan {json.dumps({'format': FORMAT, **head})}"
    for state in plan.state:
        yield _tensor("state", state.resource_name, state.value, state.type, state.wire_dtype)
    for batch in plan.inputs:
        yield _tensor("input", batch.input_name, batch.value, batch.type, batch.wire_dtype)
    for output in plan.outputs:
        yield _tensor("output", output.output_name, output.value, output.type, output.wire_dtype)
    yield "wafer_constants"
    yield from _node_lines(plan.wafer_constants, locations)
    for step in plan.layer_steps:
        fields = {
            "name": step.name,
            "module": step.module,
            "direction": step.direction.value if step.direction else None,
            "loads": step.loads,
            "sums": [[sum_.partial, sum_.total] for sum_ in step.sums],
        }
        yield f"layer_step {json.dumps(fields)}"
        yield from _node_lines(step.nodes, locations)
    yield "update_constants"
    yield from _node_lines(plan.update_constants, locations)
    for update in plan.updates:
        commits = [[commit.state, commit.value] for commit in update.commits]
        yield f"update {json.dumps({'after': update.after, 'commits': commits})}"
        yield from _node_lines(update.nodes, locations)
    for sparse in plan.sparse:
        yield f"sparse {json.dumps(asdict(sparse))}"
    yield f"packed {json.dumps({name: dtype.value for name, dtype in plan.packed.items()})}"
    yield f"sharded {json.dumps(dict(plan.sharded))}"
    yield f"narrow {json.dumps(sorted(plan.narrow))}"
    yield f"types {json.dumps({name: str(type_) for name, type_ in plan.types.items()})}"


def _tensor(kind: str, name: str, value: str, type_: TensorType, wire_dtype: DType) -> str:
    return f"{kind} {json.dumps([name, value, str(type_), wire_dtype.value])}"


def _node_lines(nodes: tuple[Node, ...], locations: LocationCodec | None) -> Iterator[str]:
    for node in nodes:
        yield f" {print_node(node, locations)}"


def parse_plan(text: str, *, runs_updates: bool = True) -> Plan:
    """Read a plan as `print_plan` writes it.

    Args:
        text: The plan.
        runs_updates: Whether somebody runs the update part. Its nodes, most of a plan, are else
            read as outlines: operation, operands and results, without types and attributes.

    Raises:
        InternalError: The text is no plan, or one of another format version.
    """
    try:
        return _PlanReader(frozenset() if runs_updates else _UPDATE_SECTIONS).read(text)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InternalError(f"The text is no plan: {type(error).__name__} {error}.") from error


_UPDATE_SECTIONS = frozenset({"update", "update_constants"})

_SPARSE_NAMES = ("loads", "members", "copies", "masked_totals", "totals", "scheduled_totals")


class _PlanReader:
    """Collects the sections of a plan.

    Args:
        outlined: Sections whose nodes are read as outlines.
    """

    def __init__(self, outlined: frozenset[str]) -> None:
        self._outlined = outlined
        self._locations = LocationCodec()
        self._names: dict[str, str] = {}
        self._types: dict[str, TensorType] = {}
        # Sections by keyword, each entry its JSON and its nodes; JSON has no better type than Any.
        self._entries: dict[str, list[tuple[Any, list[Node]]]] = {}

    def read(self, text: str) -> Plan:
        lines = text.splitlines()
        # What a pod keeps of a plan is names and types, mostly. They are made before all nodes,
        # each as one object, and lie side by side: the nodes' memory can be given back.
        sections = [self._open_section(line) for line in lines if not line.startswith(" ")]
        self._names = {name: name for name in self._only("types")[0]}
        self._types = {name: parse_type(text) for name, text in self._only("types")[0].items()}
        following, nodes, is_outlined = iter(sections), list[Node](), False
        for line in lines:
            if not line.startswith(" "):
                nodes, is_outlined = next(following), line.partition(" ")[0] in self._outlined
            elif is_outlined:
                nodes.append(parse_outline(line[1:], self._names))
            else:
                nodes.append(parse_node(line[1:], self._locations, self._names))
        return self._build()

    def _open_section(self, line: str) -> list[Node]:
        """Take in the line that begins a section; return the list for its nodes."""
        nodes: list[Node] = []
        kind, _, rest = line.partition(" ")
        self._entries.setdefault(kind, []).append((json.loads(rest) if rest else None, nodes))
        return nodes

    def _only(self, kind: str) -> tuple[Any, list[Node]]:
        entries = self._entries.get(kind, ())
        if len(entries) != 1:
            raise InternalError(f"The text has {len(entries)} sections {kind!r}; a plan has one.")
        return entries[0]

    def _build(self) -> Plan:
        head, _ = self._only("plan")
        if head["format"] != FORMAT:
            raise InternalError(f"The plan has format {head['format']}; this reads {FORMAT}.")
        return Plan(
            key=head["key"],
            batch_size=head["batch_size"],
            micro_batch_size=head["micro_batch_size"],
            precision=Precision(head["precision"]),
            state=tuple(
                StateTensor(resource_name=name, value=value, type=type_, wire_dtype=dtype)
                for name, value, type_, dtype in self._tensors("state")
            ),
            inputs=tuple(
                InputTensor(input_name=name, value=value, type=type_, wire_dtype=dtype)
                for name, value, type_, dtype in self._tensors("input")
            ),
            outputs=tuple(
                Output(output_name=name, value=value, type=type_, wire_dtype=dtype)
                for name, value, type_, dtype in self._tensors("output")
            ),
            wafer_constants=tuple(self._only("wafer_constants")[1]),
            layer_steps=tuple(
                self._layer_step(fields, nodes)
                for fields, nodes in self._entries.get("layer_step", ())
            ),
            update_constants=tuple(self._only("update_constants")[1]),
            updates=tuple(
                self._update(fields, nodes) for fields, nodes in self._entries.get("update", ())
            ),
            execution=Execution(head["execution"]),
            packed={
                self._names.get(name, name): DType(dtype)
                for name, dtype in self._only("packed")[0].items()
            },
            narrow=frozenset(self._known(self._only("narrow")[0])),
            sharded={
                self._names.get(name, name): axis for name, axis in self._only("sharded")[0].items()
            },
            types=self._types,
            sparse=tuple(self._sparse(fields) for fields, _ in self._entries.get("sparse", ())),
        )

    def _sparse(self, fields: dict[str, Any]) -> SparseWeight:
        names = {key: self._known(fields[key]) for key in _SPARSE_NAMES}
        weight, mask = self._known((fields["weight"], fields["mask"]))
        return SparseWeight(
            weight=weight,
            mask=mask,
            whole_because=str(fields["whole_because"]),
            dense_because=str(fields["dense_because"]),
            **names,
        )

    def _tensors(self, kind: str) -> Iterator[tuple[str, str, TensorType, DType]]:
        for (name, value, type_, wire_dtype), _ in self._entries.get(kind, ()):
            yield name, self._names.get(value, value), parse_type(type_), DType(wire_dtype)

    def _known(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple([self._names.get(name, name) for name in names])

    def _layer_step(self, fields: dict[str, Any], nodes: list[Node]) -> LayerStep:
        direction = fields["direction"]
        sums = map(self._known, fields["sums"])
        return LayerStep(
            name=fields["name"],
            module=fields["module"],
            direction=Direction(direction) if direction else None,
            loads=self._known(fields["loads"]),
            nodes=tuple(nodes),
            sums=tuple(Sum(partial=partial, total=total) for partial, total in sums),
        )

    def _update(self, fields: dict[str, Any], nodes: list[Node]) -> Update:
        commits = map(self._known, fields["commits"])
        return Update(
            after=fields["after"],
            nodes=tuple(nodes),
            commits=tuple(Commit(state=state, value=value) for state, value in commits),
        )
