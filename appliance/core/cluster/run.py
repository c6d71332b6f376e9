"""How long a session runs and which steps produce something for the client."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSchedule:
    """The steps of one session, numbered from 0.

    Attributes:
        num_steps: Steps to run.
        output_interval: Outputs are kept at every step whose 1-based number is a multiple of this,
            and at the last step; 0 keeps none but the last step's.
        checkpoint_steps: 1-based numbers of the steps after which the state is kept for fetching.
        first_step: Training steps before the session's first one; random operations draw for
            `first_step` plus the session's step.
    """

    num_steps: int
    output_interval: int
    checkpoint_steps: frozenset[int]
    first_step: int = 0

    def keeps_outputs(self, step: int) -> bool:
        """Whether the outputs of a step (0-based) are stored for the client."""
        number = step + 1
        if number == self.num_steps:
            return True
        return self.output_interval > 0 and number % self.output_interval == 0

    def keeps_state(self, step: int) -> bool:
        """Whether the state after a step (0-based) is stored for the client."""
        return step + 1 in self.checkpoint_steps
