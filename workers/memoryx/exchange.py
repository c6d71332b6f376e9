"""Messages between the shards of MemoryX in a step: small values in a fixed layout.

Which values are sent, when and to whom is fixed by `appliance.core.plans.shard_plans`; here they
are copied into the slots of this shard's ring and out of those of the others. The time spent
waiting for others is counted, since a shard that waits has received less than its share.
"""

import contextlib

from appliance.core.errors import StreamClosedError
from appliance.core.plans.shard_plans import Receipt, ShardPlan
from appliance.pods.role_context import PodContext
from appliance.streams.protocol import RingReader, RingWriter
from appliance.streams.slot_layout import SlotLayout
from appliance.streams.stream_topology import exchange, largest
from appliance.streams.torch_views import Tensors, tensors_of
from workers.memoryx.updates import Updates


class Exchange:
    """The messages that a shard sends and reads in a session.

    Args:
        number: The session's number.
        shard: What the shard sends and reads.
    """

    def __init__(self, context: PodContext, number: int, shard: ShardPlan) -> None:
        self._context, self._number, self._shard = context, number, shard
        self._layouts = tuple(_layout(shard, names) for names in shard.messages)
        self._receipts = tuple(
            tuple((receipt, _layout(shard, receipt.contents)) for receipt in row)
            for row in shard.receipts
        )
        self._readers: dict[int, RingReader] = {}
        self._ring: RingWriter | None = None
        self._streams = contextlib.ExitStack()
        self.wait_seconds = 0.0
        if shard.messages:
            self._ring = self._streams.enter_context(
                context.serve_ring(
                    number,
                    exchange(shard.index),
                    num_slots=len(shard.messages) + 1,
                    slot_bytes=largest(self._layouts),
                    num_readers=len(shard.readers),
                )
            )

    def connect(self) -> None:
        """Connect to the shards whose messages this one reads."""
        for source in self._shard.sources:
            ring = self._context.connect_ring(self._number, exchange(source))
            self._readers[source] = self._streams.enter_context(ring)

    def send(self, update: int, updates: Updates) -> None:
        """Send the message that is due after an update, if one is."""
        message = self._shard.sends.get(update)
        if message is None or self._ring is None:
            return
        layout = self._layouts[message]
        slot = self._ring.reserve()
        views = tensors_of(layout, slot).values()
        values = updates.values(self._shard.messages[message])
        for view, value in zip(views, values, strict=True):
            view.copy_(value)
        self._ring.publish(layout.num_bytes)

    def take(self, update: int, updates: Updates) -> None:
        """Read what is due before an update, and let the updates have it."""
        for receipt, layout in self._receipts[update]:
            updates.take(self._receive(receipt, layout))

    def end(self) -> None:
        """Signal the readers that no more messages come."""
        if self._ring is not None:
            self._ring.end()

    def close(self) -> None:
        """Close the streams and wake whoever waits."""
        self._streams.close()

    def _receive(self, receipt: Receipt, layout: SlotLayout) -> Tensors:
        began = self._context.clock.monotonic_seconds()
        reader = self._readers[receipt.shard]
        slot = reader.acquire()
        self.wait_seconds += self._context.clock.monotonic_seconds() - began
        if slot is None:
            raise StreamClosedError(
                f"Stream {exchange(receipt.shard)!r} ended before the last step."
            )
        found = tensors_of(layout, slot)
        values = {name: found[name].clone() for name in receipt.names}
        reader.release()
        return values


def _layout(shard: ShardPlan, names: tuple[str, ...]) -> SlotLayout:
    return SlotLayout.of((name, shard.plan.types[name]) for name in names)
