"""Which part of a pass one position needs: a dependence analysis, and the nodes narrowed to it.

A pass of the program text computes all positions. Of most values only the *row* of the position
that the pass is for is new: what was computed for earlier positions cannot have changed, provided
that none looks ahead. So each value gets a state:

* fixed: depends on neither tokens nor position (it is absent from the table);
* `Rows`: has an axis of positions, and its row depends on the tokens' row and on whole values;
* `POINT`: belongs to the pass's position as a whole; `INDEX` is the position itself.

Rows follow the tables of `appliance.core.ir.dim_maps`. Where an operation multiplies rows with the
rows of all positions (queries with keys, weights with values), the second operand has to be whole:
a *cache*, into which every pass writes its row. The product then has an axis of keys, whose
elements behind the row's position are not to be trusted. They have to become zero before anything
adds up over that axis: a softmax along it does that if numbers that are known before the loop push
them down far enough. Which numbers those are is a *condition*, which `conditions` checks when they
are there. Whatever has no rule raises `NotByRowsError`, and the loop computes all positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from appliance.core.ir.attributes import integer, integers
from appliance.core.ir.dim_maps import DimMap, find_dim_map
from appliance.core.ir.graph import Node
from appliance.core.ir.ops import ELEMENTWISE
from appliance.core.ir.shapes import takes_single_elements
from appliance.core.ir.tensors import TensorType


class NotByRowsError(Exception):
    """The body mixes positions in a way for which there is no rule; the text says where."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Where positions lie: dim `dim` is seen as [outer, positions, inner]."""

    dim: int
    inner: int = 1


@dataclass(frozen=True, slots=True)
class Addend:
    """Numbers that are added to scores, and their axes of rows and keys."""

    value: str
    rows: int
    keys: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Numbers that replace scores where a condition is `when`, and their axes."""

    condition: str
    value: str
    rows: int
    keys: int
    when: bool


Mask = Addend | Choice


@dataclass(frozen=True, slots=True)
class Rows:
    """A value of which a pass computes one position.

    Attributes:
        axis: Its positions.
        keys: An axis of all positions, those behind the row's own not to be trusted.
        masks: What pushed them down.
        is_zero: Whether they are zero, if the conditions hold.
    """

    axis: Axis
    keys: Axis | None = None
    masks: tuple[Mask, ...] = ()
    is_zero: bool = False


class Whole(Enum):
    """States without an axis of positions."""

    POINT = "point"
    INDEX = "index"


State = Rows | Whole


@dataclass(slots=True)
class RowProgram:
    """The body narrowed to one position.

    Attributes:
        nodes: The computation; it reads slices and caches under the names below.
        slices: Name of each slice of a fixed value, with the value's name and axis.
        caches: Name under which each cache is read, with the value's name and axis.
        conditions: For each softmax, what has to push the keys behind a row's position down.
        points: Names of the values that belong to the pass as a whole.
    """

    nodes: list[Node] = field(default_factory=list)
    slices: dict[str, tuple[str, Axis]] = field(default_factory=dict)
    caches: dict[str, tuple[str, Axis]] = field(default_factory=dict)
    conditions: list[tuple[Mask, ...]] = field(default_factory=list)
    points: set[str] = field(default_factory=set)


def by_rows(
    body: Sequence[Node],
    *,
    tokens: str,
    loop_dim: int,
    positions: Sequence[str],
    update: str,
    types: Mapping[str, TensorType],
) -> RowProgram:
    """Return the body narrowed to one position.

    Args:
        body: The nodes that depend on tokens or position.
        tokens: Name of the tokens.
        loop_dim: Their axis of positions.
        positions: Names of the position.
        update: Name of what goes behind the position.
        types: Type of every value that the body reads from outside.

    Raises:
        NotByRowsError: The body mixes positions in a way for which there is no rule.
    """
    analysis = _Analysis(types, types[tokens].shape[loop_dim])
    analysis.states[tokens] = Rows(Axis(loop_dim))
    analysis.states.update(dict.fromkeys(positions, Whole.INDEX))
    for node in body:
        analysis.take(node)
    if not isinstance(analysis.states.get(update), Whole):
        raise NotByRowsError("the update is not taken from the position of the pass")
    program = analysis.program
    program.points = {n for n, state in analysis.states.items() if isinstance(state, Whole)}
    return program


_KEEPS_INDEX = frozenset({"Reshape", "BroadcastInDim", "Cast", "ExtSI", "ExtUI"})
_KEEPS_MASKS = frozenset({"Cast", "Transpose", "BroadcastInDim"})
_SLICES = frozenset({"StridedSlice"})


class _Analysis:
    """One walk over the body."""

    def __init__(self, types: Mapping[str, TensorType], num_positions: int) -> None:
        self.types, self.size = dict(types), num_positions
        self.states: dict[str, State] = {}
        self.program = RowProgram()
        self._made: set[str] = set()

    def take(self, node: Node) -> None:
        """Narrow one node."""
        self.types.update(zip(node.results, node.types, strict=True))
        states = [self.states.get(name) for name in node.operands]
        if not any(isinstance(state, Rows) for state in states):
            self._take_point(node, states)
        elif any(isinstance(state, Whole) for state in states):
            self._take_position(node)
        elif node.op == "Reshape":
            self._take_reshape(node)
        elif node.op in ("DotGeneral", "MatMul") and states[0] and states[1]:
            self._take_product(node)
        elif node.op == "Softmax" and self._is_along_keys(node):
            self._take_softmax(node)
        else:
            self._take_by_map(node)

    def _fail(self, node: Node) -> NotByRowsError:
        return NotByRowsError(f"{node.op} of {node.location} mixes positions")

    def _rows(self, name: str) -> Rows:
        state = self.states[name]
        assert isinstance(state, Rows)
        return state

    def _map(self, node: Node) -> DimMap:
        found = find_dim_map(node, [self.types[name] for name in node.operands])
        if found is None:
            raise self._fail(node)
        return found

    def _take_point(self, node: Node, states: Sequence[State | None]) -> None:
        is_index = node.op in _KEEPS_INDEX and states == [Whole.INDEX]
        state = Whole.INDEX if is_index else Whole.POINT
        self.states.update(dict.fromkeys(node.results, state))
        self.program.nodes.append(node)

    def _take_position(self, node: Node) -> None:
        """Take the row of the pass out of a value: the operation that ends the narrow part."""
        types = [self.types[name] for name in node.operands]
        table = self.states.get(node.operands[0])
        is_taken = (
            node.op == "Gather"
            and isinstance(table, Rows)
            and table.keys is None
            and table.axis == Axis(integer(node, "axis"))
            and self.states.get(node.operands[1]) is Whole.INDEX
            and takes_single_elements(node, types)
            and node.types[0].shape == self._narrow(types[0], table.axis).shape
        )
        if not is_taken:
            raise self._fail(node)
        self.states[node.results[0]] = Whole.POINT
        self.program.nodes.append(
            replace(node, op="Reshape", operands=node.operands[:1], attributes={})
        )

    def _take_reshape(self, node: Node) -> None:
        rows, source = self._rows(node.operands[0]), self.types[node.operands[0]].shape
        target = node.types[0].shape
        axis = _reshaped(source, target, rows.axis, self.size)
        keys = rows.keys and _reshaped(source, target, rows.keys, self.size)
        if axis is None or (rows.keys is not None and keys is None):
            raise self._fail(node)
        self._emit(node, node.operands, Rows(axis, keys, rows.masks, rows.is_zero))

    def _take_product(self, node: Node) -> None:
        """Multiply rows with the rows of all positions, or rows with rows of the same position."""
        labels = self._map(node)
        sides = [self._rows(name) for name in node.operands]
        row = [labels.operands[i][sides[i].axis.dim] for i in (0, 1)]
        key = [
            None if keys is None else labels.operands[i][keys.dim]
            for i, keys in enumerate(side.keys for side in sides)
        ]
        result = labels.results[0]
        if row[0] == row[1]:
            self._take_by_map(node)
            return
        extents = [
            self.types[name].shape[side.axis.dim]
            for name, side in zip(node.operands, sides, strict=True)
        ]
        if extents != [self.size, self.size]:
            raise self._fail(node)
        for whole, part in ((1, 0), (0, 1)):
            is_sum = sides[part].is_zero and key[part] == row[whole] and row[whole] in labels.sums
            if is_sum and row[part] in result and key[whole] is None:
                state = Rows(Axis(result.index(row[part])))
                self._emit(node, self._with_cache(node, whole), state)
                return
        if key != [None, None] or not {row[0], row[1]} <= set(result):
            raise self._fail(node)
        state = Rows(Axis(result.index(row[0])), keys=Axis(result.index(row[1])))
        self._emit(node, self._with_cache(node, 1), state)

    def _with_cache(self, node: Node, index: int) -> tuple[str, ...]:
        name = node.operands[index]
        axis = self._rows(name).axis
        if name not in self._made:
            raise self._fail(node)
        cache = f"{name}@all"
        self.program.caches[cache] = (name, axis)
        return tuple(cache if i == index else each for i, each in enumerate(node.operands))

    def _is_along_keys(self, node: Node) -> bool:
        keys = self._rows(node.operands[0]).keys
        return keys is not None and keys.dim == integer(node, "axis")

    def _take_softmax(self, node: Node) -> None:
        rows = self._rows(node.operands[0])
        if not rows.masks or rows.keys is None or rows.keys.inner != 1:
            raise self._fail(node)
        self.program.conditions.append(rows.masks)
        self._emit(node, node.operands, replace(rows, masks=(), is_zero=True))

    def _take_by_map(self, node: Node) -> None:
        """Narrow an operation for which one position is computed like any other."""
        labels = self._map(node)
        found = [
            (state, labels.operands[i])
            for i, name in enumerate(node.operands)
            if isinstance(state := self.states.get(name), Rows)
        ]
        row = self._label(node, [(state.axis, dims) for state, dims in found])
        with_keys = [(state.keys, dims) for state, dims in found if state.keys is not None]
        key = self._label(node, with_keys) if with_keys else None
        operands = tuple(
            self._with_slice(name, dims, row, found[0][0].axis.inner)
            for name, dims in zip(node.operands, labels.operands, strict=True)
        )
        states = []
        for dims in labels.results:
            if row not in dims or (key is not None and key not in dims):
                raise self._fail(node)
            axis = Axis(dims.index(row), found[0][0].axis.inner)
            keys = None if key is None else Axis(dims.index(key), with_keys[0][0].inner)
            states.append(Rows(axis, keys))
        if key is not None:
            states = [self._masked(node, state) for state in states]
        self._emit(node, operands, *states)

    def _label(self, node: Node, axes: Sequence[tuple[Axis, tuple[int | None, ...]]]) -> int:
        """Return the label that the axes of all operands share."""
        labels = {dims[axis.dim] for axis, dims in axes}
        inner = {axis.inner for axis, _ in axes}
        label = labels.pop()
        if labels or label is None or len(inner) > 1:
            raise self._fail(node)
        return label

    def _with_slice(self, name: str, dims: tuple[int | None, ...], label: int, inner: int) -> str:
        if isinstance(self.states.get(name), Rows) or label not in dims:
            return name
        sliced = f"{name}@row{dims.index(label)}.{inner}"
        self.program.slices[sliced] = (name, Axis(dims.index(label), inner))
        return sliced

    def _masked(self, node: Node, state: Rows) -> Rows:
        """Return the state of a result with keys: what is known of those behind the position."""
        before = [s for name in node.operands if isinstance(s := self.states.get(name), Rows)]
        first = before[0]
        assert state.keys is not None
        rows, keys = state.axis.dim, state.keys.dim
        is_alone = len(before) == 1 and state.axis.inner == state.keys.inner == 1
        if node.op in _KEEPS_MASKS:
            return replace(state, masks=first.masks, is_zero=first.is_zero)
        if not is_alone or node.op not in ELEMENTWISE:
            return state
        if node.op == "Mul" or (node.op == "Div" and self.states.get(node.operands[0]) is first):
            return replace(state, is_zero=first.is_zero)
        if node.op == "Add":
            other = next(name for name in node.operands if name not in self.states)
            return replace(state, masks=(*first.masks, Addend(other, rows, keys)))
        if node.op == "Select" and node.operands[0] not in self.states:
            when = node.operands[1] not in self.states
            value = node.operands[1] if when else node.operands[2]
            return replace(state, masks=(Choice(node.operands[0], value, rows, keys, when),))
        return state

    def _narrow(self, type_: TensorType, axis: Axis) -> TensorType:
        shape = list(type_.shape)
        shape[axis.dim] //= self.size
        return TensorType(tuple(shape), type_.dtype)

    def _emit(self, node: Node, operands: tuple[str, ...], *states: Rows) -> None:
        types = tuple(
            self._narrow(type_, state.axis) for type_, state in zip(node.types, states, strict=True)
        )
        self.states.update(zip(node.results, states, strict=True))
        self._made.update(node.results)
        attributes = dict(node.attributes)
        if node.op in _SLICES:
            end = list(integers(node, "end"))
            end[states[0].axis.dim] = types[0].shape[states[0].axis.dim]
            attributes["end"] = tuple(end)
        self.program.nodes.append(
            replace(node, operands=operands, types=types, attributes=attributes)
        )


def _reshaped(
    source: tuple[int, ...], target: tuple[int, ...], axis: Axis, size: int
) -> Axis | None:
    """Return where an axis of positions lies after a reshape; None where a dim cuts through it."""
    stride = axis.inner
    for extent in source[axis.dim + 1 :]:
        stride *= extent
    below = 1
    for dim in reversed(range(len(target))):
        if target[dim] == 1:
            continue
        if stride < below * target[dim]:
            inner, left = divmod(stride, below)
            fits = left == 0 and target[dim] % (inner * size) == 0
            return Axis(dim, inner) if fits else None
        below *= target[dim]
    return None
