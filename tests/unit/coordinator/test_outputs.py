"""Outputs wait for the client, in bounded room, and make way once it is past them."""

import threading
import weakref

import numpy as np
import pytest

from appliance.coordinator.run.outputs import OutputBuffer
from appliance.core.errors import NotFoundError, StreamClosedError

SECONDS = 120.0


def values(number, size=1):
    return {"loss": np.full(size, number, np.float32)}


def never():
    return False


def test_an_output_can_be_fetched_again_until_the_client_goes_on() -> None:
    buffer = OutputBuffer()
    buffer.put(0, values(5))
    buffer.put(1, values(6))
    assert [buffer.get(0, "loss", never)[0] for _ in range(2)] == [5, 5]
    assert buffer.get(1, "loss", never)[0] == 6
    with pytest.raises(NotFoundError, match="step 0 are not kept; the last kept step is 1"):
        buffer.get(0, "loss", never)


def test_a_request_waits_for_its_step() -> None:
    buffer = OutputBuffer()
    timer = threading.Timer(0.05, buffer.put, (3, values(7)))
    timer.start()
    assert buffer.get(3, "loss", never)[0] == 7
    timer.join()


def test_a_full_output_buffer_stops_the_run_until_the_client_goes_on() -> None:
    buffer = OutputBuffer(max_bytes=8)
    buffer.put(0, values(0))
    buffer.put(1, values(1))
    put = threading.Thread(target=buffer.put, args=(2, values(2)))
    put.start()
    put.join(0.1)
    assert put.is_alive()
    buffer.advance(1)
    put.join(SECONDS)
    assert not put.is_alive()


def test_a_step_that_the_client_is_past_is_dropped_at_once() -> None:
    buffer = OutputBuffer(max_bytes=4)
    buffer.put(0, values(0))
    buffer.advance(5)
    buffer.put(3, values(3))
    buffer.put(5, values(5))
    assert buffer.get(5, "loss", never)[0] == 5


def test_a_client_that_fetches_nothing_more_holds_up_no_step_and_takes_no_memory() -> None:
    buffer = OutputBuffer(max_bytes=4)
    outputs = [values(step) for step in range(100)]
    buffer.put(0, outputs[0])
    buffer.stop_keeping()
    for step, output in enumerate(outputs[1:], start=1):
        buffer.put(step, output)
    arrays = [weakref.ref(output["loss"]) for output in outputs]
    del output, outputs
    assert [step for step, array in enumerate(arrays) if array() is not None] == []


def test_the_end_of_the_run_ends_the_waits() -> None:
    buffer = OutputBuffer()
    buffer.close("The run has ended.")
    with pytest.raises(StreamClosedError, match="'loss' of step 4: The run has ended"):
        buffer.get(4, "loss", never)
    assert OutputBuffer().get(4, "loss", lambda: True) is None
