"""Queues that a program uses without `@initialize_queue`: the dialect of version 1.

A queue carries the color that a DSD on it names; on WSE-2 an input queue may carry several. A DSD
that names a color alone gets a free queue. One whose queue has no color at all is a fault once a PE
uses it: PEs may share code of which some run a part only, and need no queues for the rest. For the
same reason DSDs may name a color on several queues; it comes to the first of them.
"""

from appliance.csl.program.code import QueueInitialisation
from appliance.csl.semantics.results.tile import TileWorld, UsedQueue

_INPUTS, _OUTPUTS = range(7, -1, -1), range(5, -1, -1)
"""Queues of WSE-2, in the order in which free ones are given away."""


def initialise_queues(world: TileWorld) -> None:
    """Give queues of DSDs the colors that the DSDs name, once all code has been compiled."""
    used = [each for each in world.used_queues.values() if each.color is not None]
    for each in used:
        if each.queue is not None:
            _initialise(world, each, each.queue)
    for each in used:
        if each.queue is None:
            _initialise_any(world, each)


def _initialise(world: TileWorld, used: UsedQueue, queue: int) -> None:
    assert used.color is not None
    known = world.queues.get((used.output, queue))
    if known is None:
        if not used.output and world.session.options.dialect == "2.10":
            text = f"input queue {queue} is not initialised; '.fabric_color' no longer does that"
            used.frame.error(used.node, f"{text}, call @initialize_queue")
            return
        world.queues[used.output, queue] = _automatic(used, queue)
    elif not used.output and known.color != used.color:
        _add_color(world, used, known)


def _add_color(world: TileWorld, used: UsedQueue, known: QueueInitialisation) -> None:
    """An input queue that carries another color already: on WSE-2 it may carry both."""
    text = f"input queue {known.queue} carries color {known.color}"
    if world.session.is_wse3:
        used.frame.error(used.node, f"{text}; this DSD expects color {used.color} there")
        return
    world.more_colors.append(_automatic(used, known.queue))


def _initialise_any(world: TileWorld, used: UsedQueue) -> None:
    """The queue of a DSD that names only a color: the color's, else the highest free one."""
    carried = [q for q in (*world.queues.values(), *world.more_colors) if q.output == used.output]
    if any(known.color == used.color for known in carried):
        return
    least = 1 if world.session.options.memcpy else 0  # queue 0 is memcpy's
    numbers = [n for n in (_OUTPUTS if used.output else _INPUTS) if n >= least]
    free = [n for n in numbers if (used.output, n) not in world.queues]
    if free:
        world.queues[used.output, free[0]] = _automatic(used, free[0])
    elif not used.output:
        world.more_colors.append(_automatic(used, numbers[0]))


def _automatic(used: UsedQueue, queue: int) -> QueueInitialisation:
    return QueueInitialisation(
        output=used.output, queue=queue, color=used.color, priority="default", control_table=None,
        automatic=True, position=used.frame.position(used.node),
    )  # fmt: skip
