"""What memcpy takes for itself: colors, task ids, queues and a microthread.

A program that is connected to its host by memcpy shares each PE that imports <memcpy/memcpy> with
it; its colors cross the others too. Source: the color maps of the SDK's tutorials, and its
tensor-streaming guide.
"""

from appliance.csl.program.operations import TargetKind
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.results.tile import TileWorld
from appliance.csl.syntax import tree

_COLORS = frozenset((21, 22, 23))
_TASKS = {
    TargetKind.LOCAL_TASK: frozenset((27, 28, 30)),
    TargetKind.CONTROL_TASK: frozenset((33, 34, 35, 36, 37)),
}


def check_free_color(number: int, node: tree.Node, frame: Frame) -> None:
    """Refuse to configure a color of memcpy, which crosses every PE."""
    if number in _COLORS and _is_of_a_user(frame):
        frame.fail(node, f"color {number} is reserved by memcpy; take another")


def check_free_task(kind: TargetKind, number: int, node: tree.Node, frame: Frame) -> None:
    """Refuse to bind a task to an id of memcpy."""
    if number in _TASKS.get(kind, ()):
        _refuse(f"{kind.value.replace('_', ' ')} id {number}", node, frame)


def check_free_queue(number: int, node: tree.Node, frame: Frame, *, output: bool) -> None:
    """Refuse to give a queue of memcpy a color; on WSE-2 colors share output queues, even 0."""
    is_wse3 = frame.world.session.is_wse3
    if (number == 0 and (is_wse3 or not output)) or (number == 1 and not output and is_wse3):
        _refuse(f"{'output' if output else 'input'} queue {number}", node, frame)


def note_queue(number: int, node: tree.Node, frame: Frame, *, output: bool) -> None:
    """Refuse a DSD on a queue of memcpy; on WSE-2 warn, since programs of SDK 1.2 have some."""
    if frame.world.session.is_wse3:
        check_free_queue(number, node, frame, output=output)
    elif number == 0 and not output and _is_of_a_user(frame):
        frame.warn(node, "input queue 0 is used by memcpy too; take another")


def check_free_microthread(number: int, node: tree.Node, frame: Frame) -> None:
    """Warn of an operation on the microthread of memcpy, which public programs share with it."""
    if number == 0 and _is_of_a_user(frame):
        frame.warn(node, "microthread 0 is used by memcpy too; take another")


def _refuse(what: str, node: tree.Node, frame: Frame) -> None:
    """Refuse it if the code of the PE turns out to have memcpy."""
    if _is_of_a_user(frame):
        world = frame.world
        assert isinstance(world, TileWorld)
        world.shared_with_memcpy.append((frame, node, what))


def _is_of_a_user(frame: Frame) -> bool:
    """Whether a module is the program's, and the program is connected to its host by memcpy."""
    return frame.world.session.options.memcpy and not frame.module.unit.is_library
