"""Large tensors come in as there is room, small ones always, and each leaves its room."""

import contextlib
import threading

import pytest

from appliance.coordinator.weights import intake
from appliance.coordinator.weights.intake import LARGE_BYTES, ROOM_BYTES, Intake

THIRD = ROOM_BYTES // 3
PATIENCE_SECONDS = 30.0


@pytest.fixture
def settings(monkeypatch):
    """What the allocator is told, in order; this process's own is left alone."""
    told: list[str] = []
    monkeypatch.setattr(intake, "keep_freed_memory", lambda: told.append("keep"))
    monkeypatch.setattr(intake, "return_freed_memory", lambda _: told.append("return"))
    return told


class Visitor:
    """A thread that takes room and keeps it until told to leave."""

    def __init__(self, room, num_bytes):
        self._room, self._num_bytes = room, num_bytes
        self.is_in, self._may_leave = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        with self._room.room(self._num_bytes):
            self.is_in.set()
            self._may_leave.wait(PATIENCE_SECONDS)

    def leave(self):
        self._may_leave.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()


def test_a_tensor_waits_until_there_is_room(settings) -> None:
    room = Intake()
    first, second, third = (Visitor(room, THIRD) for _ in range(3))
    for visitor in (first, second, third):
        assert visitor.is_in.wait(PATIENCE_SECONDS)
    late = Visitor(room, THIRD)
    small = Visitor(room, LARGE_BYTES - 1)
    assert small.is_in.wait(PATIENCE_SECONDS), "a small one never waits"
    assert not late.is_in.is_set()
    first.leave()
    assert late.is_in.wait(PATIENCE_SECONDS)
    for visitor in (second, third, late, small):
        visitor.leave()
    assert settings == ["keep", "return"]


def test_a_tensor_larger_than_a_message_takes_a_messages_room(settings) -> None:
    room = Intake()
    visitors = [Visitor(room, 10 * ROOM_BYTES) for _ in range(2)]
    for visitor in visitors:
        assert visitor.is_in.wait(PATIENCE_SECONDS)
    for visitor in visitors:
        visitor.leave()


def test_one_that_fails_leaves_its_room_and_memory_is_returned(settings) -> None:
    room = Intake()
    for _ in range(2 * ROOM_BYTES // THIRD):
        with contextlib.suppress(ValueError), room.room(THIRD):
            raise ValueError
    assert settings[-2:] == ["keep", "return"]
    with room.room(ROOM_BYTES):
        pass


def test_small_tensors_leave_the_allocator_as_it_is(settings) -> None:
    with Intake().room(LARGE_BYTES - 1):
        pass
    assert settings == []
