"""What a session's masks let through of its weights, and what that saves."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from appliance.core import quantities


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedWeights:
    """The masked weights of a session, as counted in its masks when its steps began.

    Attributes:
        num_masked: Weights that the program masks.
        num_sparse: Those streamed by their non-zeros.
        num_elements: Elements of all masked weights.
        num_nonzeros: Elements that the masks let through.
        broadcast_bytes: What layer steps load in one step, all micro-batches; 0 if none is sparse.
        dense_broadcast_bytes: The same with whole tensors; 0 if none is sparse.
        simulated_step_seconds: Of all systems together; 0 for a plan without layer steps.
        simulated_dense_step_seconds: The same with whole tensors.
        dense_because: Why weights are held whole, whether streamed by their non-zeros or not, and
            how many for each reason.
    """

    num_masked: int
    num_sparse: int
    num_elements: int
    num_nonzeros: int
    broadcast_bytes: int = 0
    dense_broadcast_bytes: int = 0
    simulated_step_seconds: float = 0.0
    simulated_dense_step_seconds: float = 0.0
    dense_because: Mapping[str, int] = field(default_factory=dict)

    @property
    def density(self) -> float:
        """Non-zeros over elements."""
        return self.num_nonzeros / self.num_elements if self.num_elements else 1.0

    @property
    def saved_bytes(self) -> int:
        """What one step does not broadcast; below zero where tiny weights' patterns cost more."""
        return self.dense_broadcast_bytes - self.broadcast_bytes

    @property
    def speedup(self) -> float | None:
        """Simulated step time with whole tensors over that without; None if none is sparse."""
        if not self.num_sparse or not self.simulated_step_seconds:
            return None
        return self.simulated_dense_step_seconds / self.simulated_step_seconds

    @property
    def why_dense(self) -> str:
        """Why weights are held whole, for people: `2 weights: the program changes its mask`."""
        counted = (
            f"{number:,} {'weight' if number == 1 else 'weights'}: {reason}"
            for reason, number in self.dense_because.items()
        )
        return "; ".join(counted)

    def in_words(self) -> tuple[str, ...]:
        """Return a sentence for what masks let through, and one for what that saves."""
        held = (
            f"{self.num_sparse:,} of {self.num_masked:,} masked weights are streamed by their "
            f"non-zeros; masks let through {quantities.percent(self.density)} of "
            f"{quantities.figure(self.num_elements)} elements."
        )
        sentences = [held]
        if self.speedup is not None:
            sentences.append(
                f"A step broadcasts {quantities.size(self.broadcast_bytes)} instead of "
                f"{quantities.size(self.dense_broadcast_bytes)}; simulated, it takes "
                f"{quantities.duration(self.simulated_step_seconds)} instead of "
                f"{quantities.duration(self.simulated_dense_step_seconds)}: "
                f"{quantities.figure(self.speedup)} x as fast."
            )
        if self.dense_because:
            sentences.append(f"Held whole: {self.why_dense}.")
        return tuple(sentences)
