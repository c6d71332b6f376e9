"""The streams between the pods of a job: who serves which, and what a slot of each holds.

| stream          | from              | to                | one slot for each                  |
|-----------------|-------------------|-------------------|------------------------------------|
| `announce-<s>`  | weight-s          | broadcastreduce-0 | layer step: counts of sparse loads |
| `broadcast-<p>` | broadcastreduce-p | its children      | layer step: its values (`ring`), or|
|                 |                   |                   | counts: it may be read (`mapped`)  |
| `gradients-<i>` | chief-<i>         | the pod above it  | layer step: system i's partial sums|
| `sums-<p>`      | broadcastreduce-p | the pod above it  | layer step: sums of its systems    |
| `totals-<s>`    | broadcastreduce-0 | weight-s          | layer step: its sums that shard s  |
|                 |                   |                   | needs                              |
| `exchange-<s>`  | weight-s          | other weight pods | message of values that they need   |
| `batches-<i>`   | activation-<i>    | chief-<i>         | step: system i's share of the batch|
| `outputs`       | weight-0          | coordinator       | step that keeps outputs            |

Of the readers of `broadcast-<p>` that share a node other than the pod's the first one receives it
and serves it to the others there as `relay-<member>`; see `appliance.streams.network.relays`.

The SwarmX pods of a job are a tree over its systems (`core/cluster/swarmx_tree.py`); where a share
is computed in micro-batches, every pod but the root sums each of them by itself.

The two ends of a stream meet in shared memory on one node and over the network on two; see
`appliance.streams.endpoint`. Beside them weight-s serves `store-<s>`. Its segment `state` holds the
state tensors of shard s, `computed` the other values that layer steps load from it, `packed` copies
of loads that are sent in two bytes a value, `patterns` where sparse weights are not zero. Every
slot of `gradients`, `sums` and `totals` doubles as the doorbell "this layer step is done", so a
layer step that sends nothing has one too. Where one system computes its whole share at once and
MemoryX has one shard there is nothing to add up: `gradients-0` then goes to weight-0, and
`totals-0` is not there. A shard's layouts are those of its own plan,
`appliance.core.plans.shard_plans`.
"""

from collections.abc import Iterable, Sequence

from appliance.core.cluster.swarmx_tree import TreePod
from appliance.core.errors import InternalError
from appliance.core.ids import Role
from appliance.core.ir.sharding import BatchShard
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.loads.packed import streamed_type
from appliance.core.plans.micro_batches import num_micro_batches
from appliance.core.plans.plan import LayerStep, Plan
from appliance.core.plans.sparse.as_executed import matrix_shapes
from appliance.core.pods.pod_spec import member_name
from appliance.core.sparsity.encodings import Encoding, pattern_bytes
from appliance.streams.slot_layout import SlotLayout
from appliance.streams.sparse_slots import SparseSlots

OUTPUTS = "outputs"

STATE_SEGMENT = "state"
COMPUTED_SEGMENT = "computed"
PACKED_SEGMENT = "packed"
PATTERN_SEGMENT = "patterns"

NUM_ANNOUNCE_SLOTS = 8
MAX_RING_SLOTS = 3
"""Most slots of a broadcast, gradient or sum ring."""
_LARGE_SLOT_BYTES = 128 << 20
NUM_BATCH_SLOTS = 3
NUM_OUTPUT_SLOTS = 4
STEP_FIELD = "step"
"""First tensor of an outputs slot: the step, counted from 0."""


_SERVED_BY_FIRST = {"outputs": Role.WEIGHT, "totals": Role.BROADCASTREDUCE}
_SERVED_BY_INDEX = {
    "store": Role.WEIGHT,
    "announce": Role.WEIGHT,
    "exchange": Role.WEIGHT,
    "broadcast": Role.BROADCASTREDUCE,
    "sums": Role.BROADCASTREDUCE,
    "gradients": Role.CHIEF,
    "batches": Role.ACTIVATION,
    "samples": Role.WORKER,
}


def writer_of(stream: str) -> str:
    """Return which pod serves a stream, as in `chief-0`.

    Raises:
        InternalError: There is no such stream.
    """
    kind, _, number = stream.rpartition("-")
    if kind in _SERVED_BY_INDEX:
        return member_name(_SERVED_BY_INDEX[kind], int(number))
    if (first := _SERVED_BY_FIRST.get(kind or number)) is not None:
        return member_name(first, 0)
    raise InternalError(f"No pod serves a stream {stream!r}.")


def adds_up(plan: Plan, num_systems: int, num_shards: int) -> bool:
    """Whether SwarmX adds the sums of a job up, or sorts them by shard."""
    return num_systems > 1 or num_shards > 1 or num_micro_batches(plan, num_systems) > 1


def store(shard: int) -> str:
    """Return the name of the store of one MemoryX shard."""
    return f"store-{shard}"


def announce(shard: int) -> str:
    """Return the name of the stream that says what a MemoryX shard has ready."""
    return f"announce-{shard}"


def totals(shard: int) -> str:
    """Return the name of the stream of the sums that a MemoryX shard needs."""
    return f"totals-{shard}"


def exchange(shard: int) -> str:
    """Return the name of the stream of what a MemoryX shard computes for the others."""
    return f"exchange-{shard}"


def broadcast(pod: int) -> str:
    """Return the name of the stream in which a SwarmX pod sends to its children."""
    return f"broadcast-{pod}"


def broadcast_readers(pod: TreePod) -> tuple[str, ...]:
    """Return the members that read the broadcast of a SwarmX pod, in order, as in `chief-0`."""
    return tuple(
        member_name(Role.CHIEF, child.first_system)
        if child.pod is None
        else member_name(Role.BROADCASTREDUCE, child.pod)
        for child in pod.children
    )


def sums(pod: int) -> str:
    """Return the name of the stream of the sums of one SwarmX pod."""
    return f"sums-{pod}"


def gradients(system: int) -> str:
    """Return the name of the gradient stream of one system."""
    return f"gradients-{system}"


def batches(system: int) -> str:
    """Return the name of the batch stream of one system."""
    return f"batches-{system}"


def snapshot_segment(step_number: int) -> str:
    """Return the store segment that keeps the state after a step, counted from 1."""
    return f"snapshot/{step_number}"


def persistent_segment(persistent_id: int) -> str:
    """Return the store segment that exposes a persistent tensor."""
    return f"persistent/{persistent_id}"


def load_layout(plan: Plan, names: Iterable[str]) -> SlotLayout:
    """Return where the values that a visit is sent lie in a slot of `broadcast`."""
    return SlotLayout.of((name, streamed_type(plan, name)) for name in names)


def sum_layout(plan: Plan, step: LayerStep) -> SlotLayout:
    """Return where a layer step's sums, and a system's parts of them, lie in a slot."""
    return SlotLayout.of(plan.sum_types(step))


def num_ring_slots(slot_bytes: int) -> int:
    """Return the slots of a broadcast, gradient or sum ring.

    One is written, one waits, one is read. Where a slot is large, the computation that it belongs
    to takes so long that nothing has to wait in between, and a third slot would only cost memory.
    """
    return MAX_RING_SLOTS if slot_bytes < _LARGE_SLOT_BYTES else MAX_RING_SLOTS - 1


def largest(layouts: Iterable[SlotLayout]) -> int:
    """Return the slot size that fits each of the layouts."""
    return max((layout.num_bytes for layout in layouts), default=0)


def state_layout(plan: Plan) -> SlotLayout:
    """Return where the state tensors lie in the store, by value name.

    What is streamed comes first, in the order of its first load, so that a layer step's weights lie
    side by side; then the rest, in the order in which updates overwrite it.
    """
    types = {tensor.value: tensor.type for tensor in plan.state}
    order = [
        *(name for step in plan.layer_steps for name in step.loads),
        *(commit.state for update in plan.updates for commit in update.commits),
        *types,
    ]
    return SlotLayout.of((name, types[name]) for name in dict.fromkeys(order) if name in types)


def computed_layout(plan: Plan) -> SlotLayout:
    """Return where the loads that are not state lie in the store, in the order of first load."""
    state = {tensor.value for tensor in plan.state}
    loads = dict.fromkeys(name for step in plan.layer_steps for name in step.loads)
    return SlotLayout.of((name, plan.types[name]) for name in loads if name not in state)


def packed_layout(plan: Plan) -> SlotLayout:
    """Return where copies of packed loads lie in the store, in the order of first load."""
    loads = dict.fromkeys(name for step in plan.layer_steps for name in step.loads)
    return load_layout(plan, (name for name in loads if name in plan.packed))


def pattern_layout(plan: Plan) -> SlotLayout:
    """Return where the patterns of sparse weights lie in the store, by value name of the weight.

    Another encoding than a bit for each element is chosen only if it takes fewer bytes.
    """
    return SlotLayout.of(
        (weight, TensorType((pattern_bytes(shape, Encoding.BITMAP, 0),), DType.U8))
        for weight, shape in matrix_shapes(plan).items()
    )


def load_slots(plan: Plan, rows: Sequence[Sequence[str]]) -> SparseSlots:
    """Return the layouts of slots of `broadcast`, given the names of values of each row."""
    shapes = matrix_shapes(plan)
    loads = {name: shapes[sparse.weight] for sparse in plan.sparse for name in sparse.loads}
    types = tuple(tuple((name, streamed_type(plan, name)) for name in row) for row in rows)
    asking = {name for each in plan.sparse if each.scheduled_totals for name in each.loads}
    return SparseSlots(types, loads, has_patterns=True, asking=asking)


def sum_slots(plan: Plan) -> SparseSlots:
    """Return the layouts of slots of `gradients`, `sums` and `totals`, by layer step."""
    shapes = matrix_shapes(plan)
    totals = {name: shapes[sparse.weight] for sparse in plan.sparse for name in sparse.totals}
    return SparseSlots(tuple(map(plan.sum_types, plan.layer_steps)), totals, has_patterns=False)


def output_layout(plan: Plan) -> SlotLayout:
    """Return where the step's number and the outputs lie in a slot of `outputs`, by output name."""
    outputs = ((output.output_name, output.type) for output in plan.outputs)
    return SlotLayout.of([(STEP_FIELD, TensorType((), DType.I64)), *outputs])


def batch_layout(plan: Plan, shard: BatchShard) -> SlotLayout:
    """Return where one system's share of the batch tensors lies in a slot, by value name."""
    return SlotLayout.of((tensor.value, shard.local_type(tensor.type, 0)) for tensor in plan.inputs)
