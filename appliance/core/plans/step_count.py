"""How many steps a program's state has been trained for, read from the state itself.

The client does not say how far an earlier run came, but a program that counts its steps has the
count in its state: a schedule's `last_epoch`, to which every step adds the same whole number, or a
power such as AdamW's `beta2_power`, which every step multiplies by the same constant. Where an
overflow cancels a step, these do not change, and the grad scaler's `num_skipped_steps` counts on
the opposite condition; then the two numbers are added.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from appliance.core.ir.attributes import constant
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType
from appliance.core.plans.plan import Commit, Plan

ValueOf = Callable[[str], np.generic]
"""Returns a scalar state tensor's present value, by resource name."""

_MAX_STEPS = 200_000
"""Powers are followed so far; 0.999 leaves the normal range of float32 after 87,000 steps."""


def changes_state(plan: Plan) -> bool:
    """Return whether a step of the program leaves anything changed behind.

    A program that evaluates masked weights stores each one's product with its mask, which it
    already is after training, and which the next step leaves as it is. That is no change.
    """
    commits = [commit for update in plan.updates for commit in update.commits]
    changed = {commit.state for commit in commits}
    masks = {
        tensor.value
        for tensor in plan.state
        if tensor.type.dtype is DType.I1 and tensor.value not in changed
    }
    nodes = {
        name: node for update in plan.updates for node in update.nodes for name in node.results
    }
    return not all(_is_masking(commit, nodes, masks) for commit in commits)


def _is_masking(commit: Commit, nodes: Mapping[str, Node], masks: Collection[str]) -> bool:
    """Return whether a tensor gets its own product with one of the masks."""
    product = nodes.get(commit.value)
    if product is None or product.op != "Mul" or commit.state not in product.operands:
        return False
    factors = [nodes.get(name) for name in product.operands if name != commit.state]
    return any(
        factor is not None and factor.op == "Cast" and factor.operands[0] in masks
        for factor in factors
    )


def steps_taken(plan: Plan, value_of: ValueOf) -> int | None:
    """Return the steps that the program's state has been trained for; None if it does not tell.

    Args:
        plan: The program.
        value_of: Reads the state.
    """
    counters = _Counters(plan)
    for counter in counters.all():
        taken = _count(counter, value_of)
        if taken is None:
            continue
        if counter.condition is None:
            return taken
        skipped = counters.skips_of(counter.condition)
        if skipped is not None:
            return taken + int(value_of(skipped))
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counter:
    """A scalar of the state that steps change in the same way every time.

    Attributes:
        name: Its resource name.
        increment: What a step adds to it; 0 for a power.
        base: What a step multiplies it by; 1 for a sum.
        condition: Value without which a step leaves it as it is; None if each changes it.
    """

    name: str
    increment: int = 0
    base: float = 1.0
    condition: str | None = None


def _count(counter: _Counter, value_of: ValueOf) -> int | None:
    value = value_of(counter.name)
    if not counter.increment:
        return _exponent(np.float32(counter.base), np.float32(value))
    steps, rest = divmod(float(value), counter.increment)
    return int(steps) if steps >= 0 and rest == 0 else None


class _Counters:
    """Finds the counters of a program."""

    def __init__(self, plan: Plan) -> None:
        self._constants = {node.results[0]: node for node in plan.update_constants}
        self._definitions: dict[str, Node] = {
            name: node for update in plan.updates for node in update.nodes for name in node.results
        }
        resources = {
            tensor.value: tensor.resource_name for tensor in plan.state if not tensor.type.shape
        }
        self._committed = {
            resources[commit.state]: (commit.state, commit.value)
            for update in plan.updates
            for commit in update.commits
            if commit.state in resources
        }

    def all(self) -> tuple[_Counter, ...]:
        """Return sums before powers, and slow powers, which last longer, before fast ones."""
        return tuple(
            sorted(
                self._find(),
                key=lambda counter: (counter.increment == 0, -counter.base, counter.name),
            )
        )

    def skips_of(self, condition: str) -> str | None:
        """Return the counter of the steps in which a condition did not hold."""
        for name, (state, value) in self._committed.items():
            operands = self._operands(value, "Add")
            if operands is None or state not in operands:
                continue
            for other in set(operands) - {state}:
                skipped = self._operands(other, "Sub")
                if skipped is None or self._constant(skipped[0]) != 1:
                    continue
                if self._operands(skipped[1], "Cast") == (condition,):
                    return name
        return None

    def _find(self) -> Iterator[_Counter]:
        for name, (state, committed) in self._committed.items():
            value, condition = self._unconditional(committed, state)
            step = self._by_constant(value, "Mul")
            if step is not None and step[0] == state and 0 < step[1] < 1:
                yield _Counter(name=name, base=step[1], condition=condition)
            increment = 0.0
            while value != state and (step := self._by_constant(value, "Add")) is not None:
                value, increment = step[0], increment + step[1]
            if value == state and increment >= 1 and increment == int(increment):
                yield _Counter(name=name, increment=int(increment), condition=condition)

    def _unconditional(self, value: str, state: str) -> tuple[str, str | None]:
        """Return the value that state gets, and the condition on which it does."""
        choice = self._operands(value, "Select")
        if choice is None or choice[2] != state:
            return value, None
        return choice[1], choice[0]

    def _operands(self, name: str, op: str) -> tuple[str, ...] | None:
        node = self._definitions.get(name)
        return node.operands if node is not None and node.op == op else None

    def _by_constant(self, name: str, op: str) -> tuple[str, float] | None:
        """Return operand and constant of a value that an operation on the two has made."""
        operands = self._operands(name, op)
        if operands is None:
            return None
        for operand, other in (operands, operands[::-1]):
            number = self._constant(other)
            if number is not None:
                return operand, number
        return None

    def _constant(self, name: str) -> float | None:
        node = self._constants.get(name)
        if node is None or node.op != "Const" or node.types[0].shape:
            return None
        return float(constant(node, "value").to_numpy().astype(np.float64))


def _exponent(base: np.float32, power: np.float32) -> int | None:
    """Return how often 1 has been multiplied by the base, each product rounded to float32."""
    if power == 1:
        return 0
    if not np.finfo(np.float32).tiny < power < 1:
        return None
    # Rounding errors grow with the number of factors, so the row has room to spare.
    estimate = int(np.log(power) / np.log(base) * 1.01) + 10
    row = np.full(min(estimate, _MAX_STEPS), base, dtype=np.float32)
    np.multiply.accumulate(row, out=row)
    found = np.flatnonzero(row == power)
    return int(found[0]) + 1 if len(found) == 1 else None
