"""Which token goes where in an autoregressive loop, and when it ends: pure.

A *pass* runs the program for one position and gives every sample a token, the *update*. In the
batch, a sample's prompt ends before the first start token behind position 0; the first update
overwrites that start token, the next one the position behind it. A sample is over when what was
generated ends with a stop sequence, after `max_tokens` tokens, or at the end of the sequence; what
lies behind is filled with the first start token. Prompts may differ in length: as in a batch the
position is the same for all, the samples with the longer ones begin later.

The client's documentation and the processing of predictions in its evaluation harness say so; see
docs/decisions/0103-generation-runs-on-the-systems.md.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from appliance.core.ir.attributes import integer, integers
from appliance.core.ir.graph import Node
from appliance.core.plans.plan import Plan

Tokens = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRules:
    """What a program says of its loop.

    Attributes:
        loop_dim: Dim of the tokens that the loop goes over.
        start_tokens: Where generation begins; what is left of a sample is filled with the first.
        max_tokens: Most tokens for a sample; None sets no limit.
    """

    loop_dim: int
    start_tokens: tuple[int, ...]
    max_tokens: int | None

    @classmethod
    def of(cls, node: Node) -> "LoopRules":
        """Return the rules that a `wsc.NextTokens` carries."""
        most = integer(node, "max_tokens")
        return cls(
            loop_dim=integer(node, "loop_dim"),
            start_tokens=integers(node, "start_tokens"),
            max_tokens=None if most < 0 else most,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Where the loop over the positions of one batch stands.

    Attributes:
        tokens: The tokens so far, shape (rows, positions, width).
        stop: For each row its stop sequences, without padding.
        first: Position of each row's first generated token; the number of positions for none.
        counts: Tokens that each row has got.
        is_over: Which rows get no more.
        position: Index of the next pass; None when all rows are over.
    """

    rules: LoopRules
    tokens: Tokens
    stop: tuple[tuple[tuple[int, ...], ...], ...]
    first: Tokens
    counts: Tokens
    is_over: NDArray[np.bool_]
    position: int | None

    @property
    def num_generated(self) -> int:
        """Tokens generated so far, over all rows."""
        return int(self.counts.sum())


def loop_node(plan: Plan) -> Node | None:
    """Return the node that ends the loop of a plan; None for a plan without one."""
    for step in reversed(plan.layer_steps):
        for node in step.nodes:
            if node.op == "wsc.NextTokens":
                return node
    return None


def begin(rules: LoopRules, tokens: Tokens, stop: Tokens) -> Generation:
    """Return the state before the first pass.

    Args:
        tokens: The batch, shape (rows, positions, width).
        stop: Stop sequences of each row, shape (rows, sequences, length); padded at the end with
            start tokens, whole sequences included.
    """
    positions = tokens.shape[1]
    is_start: NDArray[np.bool_] = np.all(np.isin(tokens, rules.start_tokens), axis=2)
    is_start[:, :1] = False
    has_start: NDArray[np.bool_] = np.any(is_start, axis=1)
    first = np.where(has_start, is_start.argmax(axis=1), positions).astype(np.int64)
    is_over: NDArray[np.bool_] = np.logical_not(has_start) | (rules.max_tokens == 0)
    return _placed(
        Generation(
            rules=rules,
            tokens=tokens.astype(np.int64),
            stop=tuple(_sequences(rows, rules.start_tokens) for rows in stop),
            first=first,
            counts=np.zeros(len(tokens), dtype=np.int64),
            is_over=is_over,
            position=0,
        )
    )


def advance(generation: Generation, update: Tokens) -> Generation:
    """Return the state after a pass.

    Args:
        generation: The state before; its position is not None.
        update: The token that the pass gave each row, shape (rows, width).
    """
    assert generation.position is not None, "the loop is over"
    place, tokens = generation.position + 1, generation.tokens.copy()
    counts, is_over = generation.counts.copy(), generation.is_over.copy()
    most = generation.rules.max_tokens
    for row in np.flatnonzero(~is_over & (generation.first <= place)):
        tokens[row, place] = update[row]
        counts[row] += 1
        written = tokens[row, generation.first[row] : place + 1]
        is_over[row] = (
            place + 1 == tokens.shape[1]
            or counts[row] == most
            or _ends_with(written, generation.stop[row])
        )
    return _placed(replace(generation, tokens=tokens, counts=counts, is_over=is_over))


def finished(generation: Generation) -> Tokens:
    """Return the tokens after the loop: behind what a sample got, its rest is filled."""
    tokens = generation.tokens.copy()
    for row in np.flatnonzero(generation.counts):
        end = generation.first[row] + generation.counts[row]
        tokens[row, end:] = generation.rules.start_tokens[0]
    return tokens


def _placed(generation: Generation) -> Generation:
    """Return the state with the position of the next pass."""
    live = ~generation.is_over
    if not live.any():
        return replace(generation, position=None)
    written = generation.first + generation.counts
    return replace(generation, position=int(written[live].min()) - 1)


def _sequences(padded: Tokens, padding: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    found = []
    for line in padded:
        sequence = [int(token) for token in line]
        while sequence and sequence[-1] in padding:
            sequence.pop()
        if sequence:
            found.append(tuple(sequence))
    return tuple(found)


def _ends_with(written: Tokens, stop: tuple[tuple[int, ...], ...]) -> bool:
    """Whether generated tokens, shape (tokens, width), end with one of the sequences."""
    return any(
        len(sequence) <= len(written)
        and bool((written[-len(sequence) :] == np.array(sequence)[:, None]).all())
        for sequence in stop
    )
