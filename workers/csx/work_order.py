"""What a CS-2 does next: the order of batches, weights, computation and releases.

Pure: `next_action` looks at the state, `after` returns the state once the action is done. Two rules
hold by construction. At most two layer steps' weights are held, the current one's and the next
one's; and a slot is released before anything of the step after the next is requested.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from appliance.core.errors import InternalError

MAX_LAYER_STEPS_HELD = 2


class Action(StrEnum):
    """One thing for the shell to do."""

    TAKE_BATCH = "take-batch"
    ACQUIRE = "acquire"
    """Wait for the current layer step's weights."""
    PREFETCH = "prefetch"
    """Take the next layer step's weights if they are there; do not wait."""
    BEGIN = "begin"
    """Begin the current layer step."""
    BEGIN_AHEAD = "begin-ahead"
    """Begin the next layer step if there is room for its sums; do not wait."""
    FINISH = "finish"
    """Wait until the current layer step is computed."""
    RELEASE = "release"
    """Give the current layer step's weights back."""
    DROP_BATCH = "drop-batch"
    """The step is over: give the batch back, forget the activations."""
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class CsxState:
    """Where a CS-2 stands in its session.

    Attributes:
        num_steps: Steps of the session.
        num_layer_steps: Layer steps of each; one that several micro-batches visit counts for each.
        step: The current step, from 0.
        layer_step: The current layer step; `num_layer_steps` when the step has none left.
        num_held: Layer steps whose weights are held, the current one first.
        has_batch: Whether the step's batch has been taken.
        has_tried_prefetch: Whether the next layer step's weights were asked for already.
        has_begun: Whether the current layer step has begun.
        has_begun_ahead: Whether the next one has, too.
        has_tried_ahead: Whether that was tried.
        is_computed: Whether the current layer step is computed but still held.
        runs_ahead: Whether the next layer step may begin while the current one is computed.
    """

    num_steps: int
    num_layer_steps: int
    step: int = 0
    layer_step: int = 0
    num_held: int = 0
    has_batch: bool = False
    has_tried_prefetch: bool = False
    has_begun: bool = False
    has_begun_ahead: bool = False
    has_tried_ahead: bool = False
    is_computed: bool = False
    runs_ahead: bool = False

    @property
    def is_last(self) -> bool:
        """Whether no layer step follows the current one in the session."""
        return self.step == self.num_steps - 1 and self.layer_step >= self.num_layer_steps - 1

    @property
    def next_layer_step(self) -> int:
        """Index of the layer step after the current one, which may belong to the next step."""
        return (self.layer_step + 1) % self.num_layer_steps

    @property
    def may_run_ahead(self) -> bool:
        """Whether the next layer step may begin; never in the first step, which is measured."""
        is_held = self.num_held == MAX_LAYER_STEPS_HELD
        return self.runs_ahead and is_held and self.next_layer_step > 0 and self.step > 0

    @property
    def next_step(self) -> int:
        """The step that the layer step after the current one belongs to."""
        return self.step + (self.next_layer_step == 0)


def next_action(state: CsxState) -> Action:
    """Return what to do in a state."""
    if state.step == state.num_steps:
        return Action.END
    if not state.has_batch:
        return Action.TAKE_BATCH
    if state.layer_step == state.num_layer_steps:
        return Action.DROP_BATCH
    if state.is_computed:
        return Action.RELEASE
    if state.num_held == 0:
        return Action.ACQUIRE
    if not state.has_begun:
        return Action.BEGIN
    if state.num_held < MAX_LAYER_STEPS_HELD and not (state.has_tried_prefetch or state.is_last):
        return Action.PREFETCH
    if state.may_run_ahead and not state.has_tried_ahead:
        return Action.BEGIN_AHEAD
    return Action.FINISH


def after(state: CsxState, action: Action, *, arrived: bool = True) -> CsxState:
    """Return the state after an action.

    Args:
        state: The state before.
        action: What was done; must be what `next_action` asked for.
        arrived: For a prefetch, whether the weights were there; for a layer step to be begun ahead,
            whether there was room.

    Raises:
        InternalError: The action is not the one that the state asks for.
    """
    if action is not next_action(state):
        raise InternalError(f"A CS-2 cannot {action.value} in {state}.")
    return _after(state, action, arrived)


def _after(state: CsxState, action: Action, arrived: bool) -> CsxState:
    match action:
        case Action.TAKE_BATCH:
            return replace(state, has_batch=True)
        case Action.ACQUIRE:
            return replace(state, num_held=1)
        case Action.PREFETCH:
            return replace(state, has_tried_prefetch=True, num_held=state.num_held + arrived)
        case Action.BEGIN:
            return replace(state, has_begun=True)
        case Action.BEGIN_AHEAD:
            return replace(state, has_tried_ahead=True, has_begun_ahead=arrived)
        case Action.FINISH:
            return replace(state, is_computed=True)
        case Action.RELEASE:
            return replace(
                state,
                num_held=state.num_held - 1,
                layer_step=state.layer_step + 1,
                has_begun=state.has_begun_ahead,
                has_begun_ahead=False,
                has_tried_ahead=False,
                is_computed=False,
                has_tried_prefetch=False,
            )
        case Action.DROP_BATCH:
            return replace(state, step=state.step + 1, layer_step=0, has_batch=False)
        case Action.END:
            return state
