"""A plan's update part cut for MemoryX shards: what each runs, and what it sends the others when.

A shard's own plan has its state, its loads, the sums that it needs and its part of every update, so
all of MemoryX treats it as the plan of a job with one shard. Where a node reads a value that
another shard computes, its update is cut before it: each update becomes *rounds*, and a value
crosses between two rounds. Update by update, round by round is the *order* of a step, the same on
every shard.

Values cross in *messages*, few and early: one with all state that others read when the step begins,
then one whenever a shard has computed everything that some reader next waits for. Small values that
depend on those of other shards are computed late (`core/plans/shard_times.py`), so that no shard
waits before it must, and the number of messages does not grow with the number of layers. A shard
sends its messages in order and all read them in order, each before the first round that needs
something of it. Since that round comes later in the order than the one after which the message is
sent, and a ring has room for all messages of a step, the shard that is furthest behind never waits
for another: there is no deadlock.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from appliance.core.ir.graph import Node, needed_nodes
from appliance.core.plans.plan import STEP_START, Commit, Plan, Update
from appliance.core.plans.shard_times import node_times
from appliance.core.plans.state_shards import HOME, Placement, place_state

Moment = tuple[int, int]
"""An update's place in the plan and a round of it."""
_BEGIN: Moment = (-1, 0)
MAX_MESSAGES = 62
"""Messages of a shard in a step; a ring has room for all of them, and has 64 slots at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The reading of another shard's next message.

    Attributes:
        shard: The other shard.
        contents: Values that the message holds.
        names: Values to take from it; may be empty.
    """

    shard: int
    contents: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPlan:
    """What one shard of a job does.

    Attributes:
        index: Number of the shard.
        plan: Its own plan: of its state, its loads, its sums, its part of the updates.
        messages: Values of each message that it sends in a step, in order.
        sends: Number of the message to send after an update of its plan; `STEP_START` stands for
            the beginning of the step.
        receipts: What it reads before each update of its plan; the last entry is read when they are
            all done.
        readers: Shards that read its messages, each all of them.
    """

    index: int
    plan: Plan
    messages: tuple[tuple[str, ...], ...]
    sends: Mapping[int, int]
    receipts: tuple[tuple[Receipt, ...], ...]
    readers: tuple[int, ...]

    @property
    def sources(self) -> tuple[int, ...]:
        """The shards whose messages it reads."""
        return tuple(sorted({each.shard for row in self.receipts for each in row}))


def shard_plans(plan: Plan, num_shards: int) -> tuple[ShardPlan, ...]:
    """Return what each shard of a job does; a single one does what the plan says.

    Where the plan does not let itself be cut for so many, some of them stay empty.

    Args:
        plan: A verified plan.
        num_shards: At least 1.
    """
    if num_shards == 1:
        receipts = ((),) * (len(plan.updates) + 1)
        whole = ShardPlan(index=0, plan=plan, messages=(), sends={}, receipts=receipts, readers=())
        return (whole,)
    return _cut(plan, num_shards)[1].run()


def most_shards(plan: Plan, num_shards: int) -> int:
    """Return over how many of the shards the plan is spread by `shard_plans`.

    They are halved until none has to send more than `MAX_MESSAGES` in a step. That takes a program
    in which every layer is updated with what other shards have computed of the layer before.
    """
    return _cut(plan, num_shards)[0]


def _cut(plan: Plan, num_shards: int) -> tuple[int, "_Cutter"]:
    """Return how many of the shards the plan is spread over, and what cuts it."""
    num_used = num_shards
    while True:
        cutter = _Cutter(plan, num_shards, place_state(plan, num_used))
        if num_used == 1 or cutter.num_messages() <= MAX_MESSAGES:
            return num_used, cutter
        num_used //= 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    """One message of a shard.

    Attributes:
        sent: Moment after which it is sent.
        read: Moment before which everybody reads it.
        names: What it holds.
    """

    sent: Moment
    read: Moment
    names: tuple[str, ...]


class _Cutter:
    """Cuts one plan."""

    def __init__(self, plan: Plan, num_shards: int, placement: Placement) -> None:
        self._plan, self._shards = plan, range(num_shards)
        self._placement = placement
        self._end: Moment = (len(plan.updates), 0)
        self._nodes: dict[int, dict[Moment, list[Node]]] = {s: {} for s in self._shards}
        self._commits: dict[int, dict[Moment, list[Commit]]] = {s: {} for s in self._shards}
        self._last: dict[tuple[int, int], Moment] = {}
        self._made: dict[str, dict[int, Moment]] = {
            state: {shard: _BEGIN} for state, shard in self._placement.state.items()
        }
        self._wanted: dict[int, dict[str, dict[int, Moment]]] = {
            s: defaultdict(dict) for s in self._shards
        }

        self._divide()
        self._messages = {shard: self._messages_of(shard) for shard in self._shards}

    def num_messages(self) -> int:
        """Return how many messages the shard with most sends in a step."""
        return max(map(len, self._messages.values()))

    def run(self) -> tuple[ShardPlan, ...]:
        return tuple(self._shard_plan(shard, self._messages) for shard in self._shards)

    def _divide(self) -> None:
        """Say what each shard runs, overwrites and reads, and when."""
        nodes = [
            (node, number)
            for number, update in enumerate(self._plan.updates)
            for node in update.nodes
        ]
        times = node_times(self._plan, self._placement)
        for (index, shard), time in sorted(times.items(), key=lambda item: (item[1], item[0])):
            node, own_time = nodes[index]
            self._run(node, (time, 1 if time > own_time else 0), shard)
        for number, update in enumerate(self._plan.updates):
            for commit in update.commits:
                self._commit(commit, number)
        for output in self._plan.outputs:
            self._read(output.value, HOME, self._end)

    def _run(self, node: Node, earliest: Moment, shard: int) -> None:
        """Give a node to a shard, in the first round in which all that it reads can be there.

        What has been put off begins with the second round, so that what others make for it in the
        first round of that update comes in the same message as what they have made before.
        """
        moment, (update, _) = earliest, earliest
        for name in node.operands:
            made = self._made.get(name, {})
            if shard in made:
                moment = max(moment, made[shard])
            elif made:
                there, number = made[min(made)]
                moment = max(moment, (there, number + 1) if there == update else _BEGIN)
        for name in node.operands:
            self._read(name, shard, moment)
        for name in node.results:
            self._made.setdefault(name, {})[shard] = moment
        self._nodes[shard].setdefault(moment, []).append(node)
        self._last[shard, update] = max(moment, self._last.get((shard, update), moment))

    def _read(self, name: str, shard: int, moment: Moment) -> None:
        """Note that a shard reads a value, which crosses if another one makes it."""
        made = self._made.get(name, {})
        if made and shard not in made:
            readers = self._wanted[min(made)][name]
            readers[shard] = min(moment, readers.get(shard, moment))

    def _commit(self, commit: Commit, update: int) -> None:
        """Have a state tensor overwritten after the last round of its shard in an update."""
        shard = self._placement.state[commit.state]
        moment = self._last.get((shard, update), (update, 0))
        self._commits[shard].setdefault(moment, []).append(commit)

    def _messages_of(self, shard: int) -> tuple[_Message, ...]:
        """Return what a shard sends: state first, as it may be overwritten, then as needed."""
        made = {name: self._made[name][shard] for name in self._wanted[shard]}
        needed = {name: min(readers.values()) for name, readers in self._wanted[shard].items()}
        found: list[_Message] = []
        state = tuple(name for name in made if made[name] == _BEGIN)
        if state:
            read = min(needed.values())
            found.append(_Message(sent=_BEGIN, read=read, names=state))
        left = [name for name in made if made[name] != _BEGIN]
        while left:
            read = min(needed[name] for name in left)
            sent = max(made[name] for name in left if needed[name] == read)
            names = tuple(name for name in left if made[name] <= sent)
            found.append(_Message(sent=sent, read=read, names=names))
            left = [name for name in left if made[name] > sent]
        return tuple(found)

    def _shard_plan(self, shard: int, messages: Mapping[int, tuple[_Message, ...]]) -> ShardPlan:
        nodes, commits = self._nodes[shard], self._commits[shard]
        moments = sorted({*nodes, *commits})
        updates = tuple(
            Update(
                after=self._plan.updates[moment[0]].after,
                nodes=tuple(nodes.get(moment, ())),
                commits=tuple(commits.get(moment, ())),
            )
            for moment in moments
        )
        place = {moment: index for index, moment in enumerate(moments)} | {_BEGIN: STEP_START}
        mine = messages[shard]
        return ShardPlan(
            index=shard,
            plan=self._own_plan(shard, updates),
            messages=tuple(message.names for message in mine),
            sends={place[message.sent]: number for number, message in enumerate(mine)},
            receipts=self._receipts(shard, moments, messages),
            readers=self._readers(shard),
        )

    def _readers(self, shard: int) -> tuple[int, ...]:
        readers = {reader for wanted in self._wanted[shard].values() for reader in wanted}
        return tuple(sorted(readers))

    def _receipts(
        self, shard: int, moments: list[Moment], messages: Mapping[int, tuple[_Message, ...]]
    ) -> tuple[tuple[Receipt, ...], ...]:
        """Return what a shard reads before each of its moments, and after the last one."""
        rows: list[list[Receipt]] = [[] for _ in range(len(moments) + 1)]
        for source in self._shards:
            if shard not in self._readers(source):
                continue
            for message in messages[source]:
                names = tuple(n for n in message.names if shard in self._wanted[source][n])
                place = sum(moment < message.read for moment in moments)
                rows[place].append(Receipt(shard=source, contents=message.names, names=names))
        return tuple(tuple(row) for row in rows)

    def _own_plan(self, shard: int, updates: tuple[Update, ...]) -> Plan:
        plan = self._plan
        outputs = plan.outputs if shard == HOME else ()
        used = {
            *(name for update in updates for node in update.nodes for name in node.operands),
            *(commit.value for update in updates for commit in update.commits),
            *(output.value for output in outputs),
        }
        loads = [
            tuple(n for n in step.loads if self._owner(n) == shard) for step in plan.layer_steps
        ]
        used.update(name for names in loads for name in names)
        return replace(
            plan,
            state=tuple(t for t in plan.state if self._placement.state[t.value] == shard),
            outputs=outputs,
            wafer_constants=(),
            layer_steps=tuple(
                replace(
                    step,
                    loads=names,
                    nodes=(),
                    sums=tuple(s for s in step.sums if shard in self._placement.totals[s.total]),
                )
                for step, names in zip(plan.layer_steps, loads, strict=True)
            ),
            update_constants=needed_nodes(plan.update_constants, used),
            updates=updates,
            packed={n: dtype for names in loads for n in names if (dtype := plan.packed.get(n))},
        )

    def _owner(self, name: str) -> int:
        """Return the shard that streams a value out; a constant is streamed by the home shard."""
        takers: Iterable[int] = self._placement.totals.get(name, ())
        return min((*self._made.get(name, {}), *takers), default=HOME)
