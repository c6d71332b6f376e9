"""What generation has done in a session, for the pod's readings."""

from collections.abc import Mapping

from appliance.core.cluster.readings import (
    GENERATED_RATE,
    GENERATED_TOKENS,
    GENERATION_PASSES,
    SIMULATED_GENERATED_RATE,
    SIMULATED_TOTAL,
)
from workers.csx.simulated import SimulatedTime


class GenerationAccount:
    """Counts passes and tokens; one without a loop counts nothing and reports nothing."""

    def __init__(self) -> None:
        self._passes: int | None = None
        self._tokens = 0

    def add(self, generated: tuple[int, int] | None) -> None:
        """Note a step's passes over positions and the tokens that it has generated.

        Args:
            generated: Both numbers; None for a program without a loop.
        """
        if generated is not None:
            passes, tokens = generated
            self._passes = (self._passes or 0) + passes
            self._tokens += tokens

    def steps(self, num_steps: int) -> int:
        """Return how often a wafer would have run the program: each pass is a step of its own.

        Args:
            num_steps: Batches computed.
        """
        return num_steps if self._passes is None else self._passes

    def readings(self, simulated: SimulatedTime, wall_seconds: float) -> Mapping[str, float]:
        """Return the readings.

        Args:
            simulated: What a real wafer would take.
            wall_seconds: Time of the session so far.
        """
        if self._passes is None:
            return {}
        found = {
            GENERATED_TOKENS: float(self._tokens),
            GENERATION_PASSES: float(self._passes),
            GENERATED_RATE: self._tokens / wall_seconds if wall_seconds > 0 else 0.0,
        }
        seconds = simulated.readings(self._passes).get(SIMULATED_TOTAL, 0.0)
        if seconds > 0:
            found[SIMULATED_GENERATED_RATE] = self._tokens / seconds
        return found
