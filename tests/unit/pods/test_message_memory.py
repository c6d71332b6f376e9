"""So many messages are read at a time, and none while others fill the room."""

import threading

from appliance.pods.client.message_memory import MessageRoom

SECONDS = 60


def read_in_thread(room: MessageRoom) -> tuple[threading.Thread, threading.Event]:
    has_read = threading.Event()

    def read():
        with room.reading():
            has_read.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread, has_read


def test_a_message_waits_until_another_is_read():
    room = MessageRoom(num_read=1, held_bytes=100)
    with room.reading():
        thread, has_read = read_in_thread(room)
        thread.join(0.05)
        assert not has_read.is_set()
    assert has_read.wait(SECONDS)


def test_a_message_waits_until_those_being_answered_leave_room():
    room = MessageRoom(num_read=1, held_bytes=100)
    with room.holding(60):
        with room.reading():
            pass
        with room.holding(60):
            thread, has_read = read_in_thread(room)
            thread.join(0.05)
            assert not has_read.is_set()
        assert has_read.wait(SECONDS)


def test_a_message_that_does_not_come_leaves_its_place():
    room = MessageRoom(num_read=1, held_bytes=100)
    try:
        with room.reading():
            raise ConnectionError
    except ConnectionError:
        pass
    with room.reading():
        pass
