"""When the steps of a session compare the tensors that lie in files, and compute their checksums.

What a layer step loads is compared before it is announced, what an update reads before it runs;
both begin one place ahead, where the pages are being read from the disk anyway. A weight that is
loaded as it is has just been compared for the backward pass when its update comes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from appliance.core.plans.plan import Plan, Update
from appliance.core.plans.sparse.gathered import gathered_after
from workers.memoryx.on_disk.block_checksums import Checksums
from workers.memoryx.on_disk.store_checksums import StoreChecksums

_AHEAD = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Uses:
    """Tensors of one file that are read, and those that are overwritten."""

    checksums: Checksums
    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()

    def expect(self) -> None:
        self.checksums.expect(self.reads)

    def require(self) -> None:
        self.checksums.require(self.reads, writes=self.writes)

    def written(self) -> None:
        self.checksums.written(self.writes)


class CheckedSteps:
    """The comparisons of one session.

    Args:
        plan: The session's plan.
        checksums: Of the files of its store.
        layer_steps: The layer step of each announcement of a step, in order.
    """

    def __init__(self, plan: Plan, checksums: StoreChecksums, layer_steps: Sequence[int]) -> None:
        packed = _Packed(plan)
        of = checksums
        loads = [
            (
                _uses(of.state, (name for name in step.loads if name not in plan.packed)),
                _uses(of.packed, step.loads),
            )
            for step in plan.layer_steps
        ]
        loaded = {name for step in plan.layer_steps for name in step.loads} - plan.packed.keys()
        self._loads = tuple(loads[layer_step] for layer_step in layer_steps)
        self._updates = tuple(
            (
                _uses(
                    of.state,
                    (name for name in _read_by(update) if name not in loaded),
                    (commit.state for commit in update.commits),
                ),
                _uses(of.packed, (), packed.after_update(index)),
            )
            for index, update in enumerate(plan.updates)
        )
        self._deferred = tuple(_uses(of.deferred, _read_by(update)) for update in plan.updates)
        self._sums: dict[int, tuple[_Uses, ...]] = {
            index: (
                _uses(of.deferred, (), (sum_.total for sum_ in step.sums)),
                _uses(of.packed, (), packed.after_sums(index)),
            )
            for index, step in enumerate(plan.layer_steps)
        }
        self._then = of.then

    def begin(self) -> None:
        """Begin to compare what the first step uses first."""
        for uses in (*self._loads[:1], *self._updates[:1]):
            _each(uses, _Uses.expect)

    def before_announcing(self, position: int) -> None:
        """Look ahead of an announcement, given its place in the step."""
        _each(self._loads[(position + _AHEAD) % len(self._loads)], _Uses.expect)

    def require_loads(self, position: int) -> None:
        """Wait until what is about to be announced is compared.

        Raises:
            ClusterError: It is not what was written.
        """
        _each(self._loads[position], _Uses.require)

    def before_sums(self, layer_step: int) -> None:
        """Take in hand what the arrival of sums overwrites."""
        _each(self._sums[layer_step], _Uses.require)

    def after_sums(self, layer_step: int) -> None:
        """Compute the checksums of that."""
        _each(self._sums[layer_step], _Uses.written)

    def before_update(self, index: int) -> None:
        """Wait until what an update uses is compared, and look ahead.

        Raises:
            ClusterError: It is not what was written.
        """
        _each(self._updates[(index + _AHEAD) % len(self._updates)], _Uses.expect)
        self._deferred[index].expect()
        _each((*self._updates[index], self._deferred[index]), _Uses.require)

    def after_update(self, index: int, then: Callable[[], None]) -> None:
        """Compute the checksums of what an update has written, and do something after that."""
        _each(self._updates[index], _Uses.written)
        self._then(then)


class _Packed:
    """Which packed copies of loads are made after what."""

    def __init__(self, plan: Plan) -> None:
        weight_of = {name: sparse.weight for sparse in plan.sparse for name in sparse.copies}
        gathered = {n for sparse in plan.sparse if sparse.is_gathered for n in sparse.loads}
        self._of: dict[str, list[str]] = {}
        for name in plan.packed:
            if name not in gathered:
                self._of.setdefault(weight_of.get(name, name), []).append(name)
        self._plan, self._gathered = plan, gathered_after(plan)

    def after_update(self, index: int) -> Iterable[str]:
        update = self._plan.updates[index]
        results = (name for node in update.nodes for name in node.results)
        made = _named(self._of, (*(commit.state for commit in update.commits), *results))
        return (*made, *(n for sparse in self._gathered.get(index, ()) for n in sparse.loads))

    def after_sums(self, layer_step: int) -> Iterable[str]:
        return _named(self._of, (sum_.total for sum_ in self._plan.layer_steps[layer_step].sums))


def _named(of: Mapping[str, Sequence[str]], sources: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for source in sources for name in of.get(source, ()))


def _uses(checksums: Checksums, reads: Iterable[str], writes: Iterable[str] = ()) -> _Uses:
    return _Uses(checksums=checksums, reads=checksums.known(reads), writes=checksums.known(writes))


def _read_by(update: Update) -> tuple[str, ...]:
    operands = (name for node in update.nodes for name in node.operands)
    return (*operands, *(commit.value for commit in update.commits))


def _each(uses: Iterable[_Uses], do: Callable[[_Uses], None]) -> None:
    for each in uses:
        do(each)
