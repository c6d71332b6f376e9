"""Detects systems that wait for input: first a warning with numbers, later a stall. Pure.

Every system's heartbeats report how long it has waited for batches in total, and how long it is
waiting now. A session whose system spends half of its time waiting gets one warning. A system that
waits for one batch longer than the limit has stalled; the messages use the real cluster's words.
The first batch has no limit: dataloaders build indexes before they yield anything.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from appliance.core.cluster.readings import INPUT_WAIT, INPUT_WAIT_NOW

WINDOW_SECONDS = 30.0
"""Over which waits are compared with the time; at most half of what makes a stall."""
STARVED_SHARE = 0.5

WARNING = "Input starvation detected"
HINT = "Please check dataloader throughput"


@dataclass(frozen=True, slots=True, kw_only=True)
class Starvation:
    """A warning or a stall to report.

    Attributes:
        message: One sentence or two, with the numbers.
        is_stall: Whether the job has to end for it.
    """

    message: str
    is_stall: bool


@dataclass(slots=True, kw_only=True)
class _System:
    """The state of one system: its session, and its recent waits."""

    session: int
    waits: deque[tuple[float, float]] = field(default_factory=deque)
    is_stalled: bool = False


class StarvationWatch:
    """Looks at the heartbeats of one job's systems.

    Args:
        stall_seconds: Longest wait for one batch.
    """

    def __init__(self, *, stall_seconds: float) -> None:
        self._stall_seconds = stall_seconds
        self._window_seconds = min(WINDOW_SECONDS, stall_seconds / 2)
        self._systems: dict[int, _System] = {}
        self._warned_session = 0

    def look(
        self,
        system: int,
        *,
        session: int,
        step: int,
        readings: Mapping[str, float],
        now_seconds: float,
    ) -> Starvation | None:
        """Process a heartbeat; return the warning or stall that follows from it.

        Args:
            system: The system's number.
            session: Number of the session that it is in.
            step: Steps that it has completed in the session.
            now_seconds: When the heartbeat came, of a clock that never goes back.
        """
        known = self._systems.get(system)
        if known is None or known.session != session:
            known = self._systems[system] = _System(session=session)
        waiting = readings.get(INPUT_WAIT_NOW, 0.0)
        if step > 0 and waiting > self._stall_seconds and not known.is_stalled:
            known.is_stalled = True
            return Starvation(message=self._stall(system, step, waiting), is_stall=True)
        known.waits.append((now_seconds, readings.get(INPUT_WAIT, 0.0)))
        while len(known.waits) > 1 and now_seconds - known.waits[1][0] >= self._window_seconds:
            known.waits.popleft()
        return self._warning(system, session, step, known)

    def _warning(self, system: int, session: int, step: int, known: _System) -> Starvation | None:
        (then, before), (now, after) = known.waits[0], known.waits[-1]
        is_long = now - then >= self._window_seconds
        if session == self._warned_session or not is_long:
            return None
        if after - before < STARVED_SHARE * (now - then):
            return None
        self._warned_session = session
        return Starvation(
            message=(
                f"{WARNING}: system {system} waited {after - before:.1f} of the last "
                f"{now - then:.1f} s for its batches, {step} steps into session {session}."
            ),
            is_stall=False,
        )

    def _stall(self, system: int, step: int, waiting: float) -> str:
        return (
            "Declaring stall due to input starvation, no change in status for "
            f"{self._stall_seconds:g} secs. System {system} has waited {waiting:.0f} s for the "
            f"batch of step {step + 1}. {HINT}."
        )
