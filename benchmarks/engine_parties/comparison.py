"""Parties taking turns, and what comes of it: ratios of one round, medians over the rounds.

Within a round every party does a block of the same number of steps, one party after the other; the
order turns from round to round. A ratio is formed within a round and the median taken over the
rounds, so drift of the machine cancels. Rounds in which others used more than a few percent of the
processors count only if there are not enough quiet ones.
"""

import contextlib
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence

import psutil

from benchmarks.engine_parties.environment import BaselineMissingError
from benchmarks.engine_parties.party import Block, Party, measure, shared_bytes

QUIET_SHARE = 0.06
"""Part of the processors that others may use in a quiet block."""
MIN_QUIET_ROUNDS = 5
WARM_UP_STEPS = 3
_NARROW = ("autocast", "bf16")
"""In the names of who computes in bfloat16."""
_DIFFERENCE, _NARROW_DIFFERENCE = 0.01, 0.05
"""Of losses, as a part of them, after as many steps as a benchmark does."""


class Comparison:
    """The blocks of several parties that took turns.

    Args:
        units_a_step: For rates.
        unit: What they count, such as `tokens`.
    """

    def __init__(self, units_a_step: int, unit: str = "tokens") -> None:
        self.blocks: dict[str, list[Block]] = {}
        self.shared: dict[str, int] = {}
        self.missing: dict[str, str] = {}
        self._units_a_step, self._unit = units_a_step, unit

    def add_rounds(
        self,
        parties: Sequence[Party],
        *,
        num_rounds: int,
        num_steps: int,
        before_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Bring parties up, have them take turns, and end them.

        A party that cannot run here is noted as missing with the reason, and the others go on.
        `before_end` is called while they are still there.
        """
        with contextlib.ExitStack() as stack:
            present = []
            for party in parties:
                stack.callback(party.close)
                try:
                    _require_memory(party)
                    party.start()
                    party.run(WARM_UP_STEPS)
                except BaselineMissingError as error:
                    self.missing[party.name] = str(error)
                    continue
                _progress(f"{party.name} is up")
                present.append(party)
                self.blocks[party.name] = []
            for number in range(num_rounds):
                turn = number % len(present)
                for party in (*present[turn:], *present[:turn]):
                    self.blocks[party.name].append(measure(party, num_steps))
                _progress(f"round {number + 1} of {num_rounds}")
            for party in present:
                self.shared[party.name] = shared_bytes(party.processes())
            before_end()

    def ratio(self, ours: str, other: str) -> float:
        """Return the throughput of one party over that of another, NaN if one is missing."""
        return _median(b.wall_seconds / a.wall_seconds for a, b in self._pairs(ours, other))

    def cpu_ratio(self, ours: str, other: str) -> float:
        """Return another party's processor time over ours, for the same work."""
        return _median(b.cpu_seconds / a.cpu_seconds for a, b in self._pairs(ours, other))

    def faults(self, reference: str) -> Iterator[tuple[str, str]]:
        """Yield who did not run, or trained something else than a reference, and the reason.

        All do the same steps on the same batches. A step in bfloat16 rounds to three digits.
        """
        yield from self.missing.items()
        wanted = self.blocks.get(reference)
        for name, blocks in self.blocks.items() if wanted else ():
            most = _NARROW_DIFFERENCE if any(word in name for word in _NARROW) else _DIFFERENCE
            for ours, other in zip(blocks, wanted or (), strict=True):
                if not abs(ours.loss - other.loss) <= most * abs(other.loss):
                    yield name, f"a loss of {ours.loss:.6f} where {reference} has {other.loss:.6f}"
                    break

    def rows(self, reference: str) -> Iterator[str]:
        """Yield a table: a header, and a line for each party."""
        yield (
            f"{'party':<16} {self._unit + '/s':>9} {'ratio':>6} {'cpu ms':>8} {'cpu ratio':>9} "
            f"{'anon MB':>8} {'shared MB':>9} {'spread':>7} {'foreign':>7} {'loss':>8}"
        )
        for name, blocks in self.blocks.items():
            walls = [block.wall_seconds for block in blocks]
            spread = (max(walls) - min(walls)) / statistics.median(walls)
            yield (
                f"{name:<16} {self._units_a_step / statistics.median(walls):>9.1f} "
                f"{self.ratio(name, reference):>6.3f} "
                f"{1e3 * statistics.median(b.cpu_seconds for b in blocks):>8.1f} "
                f"{self.cpu_ratio(name, reference):>9.3f} "
                f"{max(b.anonymous_bytes for b in blocks) / 1e6:>8.0f} "
                f"{self.shared.get(name, 0) / 1e6:>9.0f} {spread:>7.2f} "
                f"{statistics.median(b.foreign_share for b in blocks):>7.2f} "
                f"{blocks[-1].loss:>8.4f}"
            )
        for name, reason in self.missing.items():
            yield f"{name:<16} missing: {reason}"

    def _pairs(self, ours: str, other: str) -> list[tuple[Block, Block]]:
        """Return the blocks of two parties, round by round; the quiet ones if they are enough."""
        pairs = list(zip(self.blocks.get(ours, ()), self.blocks.get(other, ()), strict=False))
        quiet = [(a, b) for a, b in pairs if max(a.foreign_share, b.foreign_share) <= QUIET_SHARE]
        return quiet if len(quiet) >= MIN_QUIET_ROUNDS else pairs


def _require_memory(party: Party) -> None:
    """Check that a party fits beside those that are up, before it makes the machine swap or kill.

    Raises:
        BaselineMissingError: It does not.
    """
    available = psutil.virtual_memory().available
    if party.needed_bytes > available:
        raise BaselineMissingError(
            f"{party.name} needs some {party.needed_bytes / 1e9:.1f} GB of memory, and "
            f"{available / 1e9:.1f} GB are available."
        )


def _median(values: Iterator[float]) -> float:
    found = list(values)
    return statistics.median(found) if found else float("nan")


def _progress(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
