"""MemoryX's update part played without pods, on any number of shards that take turns."""

import dataclasses
from collections import deque

import numpy as np
import torch

from appliance.core.plans.plan import STEP_START
from appliance.core.plans.shard_plans import shard_plans
from appliance.streams.stream_topology import computed_layout
from appliance.streams.torch_views import tensors_of
from workers.memoryx.readiness import Readiness, deferred_sum_layout
from workers.memoryx.updates import Updates


@dataclasses.dataclass
class _Sent:
    """A message, and the shards that have not read it yet."""

    contents: tuple
    values: list
    waiting: set


class _Played:
    """One shard."""

    def __init__(self, shard, state, boxes):
        self.shard, self.plan, self._boxes = shard, shard.plan, boxes
        self.state = {t.value: state[t.value].clone() for t in self.plan.state}
        self.computed, late = _zeros(computed_layout(self.plan)), deferred_sum_layout(self.plan)
        self.outputs = {}
        self._updates = Updates(
            self.plan,
            state=self.state,
            computed=self.computed,
            deferred_sums=_zeros(late),
            sent={update: shard.messages[number] for update, number in shard.sends.items()},
        )
        self._readiness = Readiness(self.plan)
        self._num_taken = dict.fromkeys(shard.sources, 0)

    def steps(self, sums_of_steps):
        """Run all steps; yields whenever the shard has to wait for another."""
        for step, sums in enumerate(sums_of_steps):
            self.outputs = {
                output.output_name: torch.zeros(
                    self.plan.types[output.value].shape,
                    dtype=torch.from_numpy(
                        np.zeros(0, self.plan.types[output.value].dtype.container)
                    ).dtype,
                )
                for output in self.plan.outputs
            }
            yield from self._step(step, sums)
            yield {name: value.clone() for name, value in self.outputs.items()}

    def _step(self, step, sums):
        self._updates.begin(step, self.outputs)
        yield from self._send(STEP_START)
        for point in self._readiness.points:
            arrived = {}
            if point.layer_step != STEP_START:
                names = [sum_.total for sum_ in self.plan.layer_steps[point.layer_step].sums]
                arrived = {name: sums[name].clone() for name in names}
                self._updates.arrive(point.layer_step, arrived)
            for update in point.updates:
                yield from self._take(update)
                self._updates.run(update)
                yield from self._send(update)
            if point.layer_step != STEP_START:
                self._updates.depart(point.layer_step)
            for tensor in arrived.values():
                tensor.zero_()
        yield from self._take(len(self.plan.updates))

    def _send(self, update):
        number = self.shard.sends.get(update)
        if number is None:
            return
        box = self._boxes[self.shard.index]
        while len(box) >= len(self.shard.messages):
            if not box[0].waiting:
                box.popleft()
                continue
            yield None
        names = self.shard.messages[number]
        values = [value.clone() for value in self._updates.values(names)]
        box.append(_Sent(names, values, set(self.shard.readers)))

    def _take(self, update):
        for receipt in self.shard.receipts[update]:
            while (sent := self._next(receipt.shard)) is None:
                yield None
            assert sent.contents == receipt.contents
            values = dict(zip(sent.contents, sent.values, strict=True))
            self._updates.take({name: values[name].clone() for name in receipt.names})
            sent.waiting.discard(self.shard.index)

    def _next(self, source):
        box = self._boxes[source]
        return next((sent for sent in box if self.shard.index in sent.waiting), None)


def _zeros(layout):
    return tensors_of(layout, np.zeros(layout.num_bytes, dtype=np.uint8))


def play_shards(plan, state, sums_of_steps, num_shards, turns):
    """Return the outputs of each step and the final state.

    Args:
        plan: A verified plan.
        state: Initial state, by value name.
        sums_of_steps: For each step, the sums that arrive, by name.
        num_shards: Shards of MemoryX.
        turns: Chooses one of the shards that can go on, given how many there are.
    """
    boxes = [deque() for _ in range(num_shards)]
    played = [_Played(shard, state, boxes) for shard in shard_plans(plan, num_shards)]
    running = {shard: shard.steps(sums_of_steps) for shard in played}
    outputs, num_idle = [], 0
    while running:
        shard = list(running)[turns(len(running))]
        try:
            shown = next(running[shard])
        except StopIteration:
            del running[shard]
            num_idle = 0
            continue
        num_idle = num_idle + 1 if shown is None else 0
        assert num_idle < 1000 * num_shards, "every shard waits for another"
        if shown is not None and shard.shard.index == 0:
            outputs.append(shown)
    assert not any(sent.waiting for box in boxes for sent in box)
    final = {name: value for shard in played for name, value in shard.state.items()}
    return outputs, final, {n: v for shard in played for n, v in shard.computed.items()}
