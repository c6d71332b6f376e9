"""The wait of a compile job for what compiling takes."""

import grpc
import pytest

from appliance.coordinator.compile.compile_turn import CompileTurn
from appliance.coordinator.console import Console, Topic
from appliance.core.errors import ClusterError
from protos.wsc.v1.management_pb2 import RequestCompileReply
from tests.support.clock import FakeClock

GRANTED = RequestCompileReply(is_granted=True)
WAITING = RequestCompileReply(reason="job is queueing.", position=2)


class Refusal(grpc.RpcError):
    def __init__(self, code):
        self._code = code

    def code(self):
        return self._code

    def details(self):
        return "There is no such job."


class Answered:
    """A call that has its answer."""

    def __init__(self, answer):
        self._answer = answer

    def result(self):
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def cancel(self):
        return False


def turn_of(*answers):
    left, console = list(answers), Console()
    return CompileTurn(lambda *_: Answered(left.pop(0)), console, FakeClock()), console


def lines_of(console):
    lines = []
    while (line := console.next_line(Topic.COMPILE, 0.0)) is not None:
        lines.append(line.msg)
    return lines


def test_the_place_in_the_queue_is_told_once():
    turn, console = turn_of(WAITING, WAITING, GRANTED)
    turn.wait(1, lambda: False)
    assert lines_of(console) == ["The program is not in the compile cache. job is queueing."]


def test_a_management_that_is_away_is_asked_again():
    turn, _ = turn_of(Refusal(grpc.StatusCode.UNAVAILABLE), GRANTED)
    turn.wait(1, lambda: False)


def test_nobody_waits_for_a_program_that_another_job_has_compiled():
    answers = iter((False, False, True))
    turn, _ = turn_of(WAITING)
    turn.wait(1, lambda: next(answers))


def test_management_hears_of_a_program_that_lies_in_the_cache_and_is_not_waited_for():
    asked = []

    def request(*question):
        asked.append(question[1:])
        return Answered(Refusal(grpc.StatusCode.UNAVAILABLE))

    CompileTurn(request, Console(), FakeClock()).wait(3, lambda: True)
    assert asked == [(3, True)]


def test_a_refusal_and_the_jobs_end_are_told():
    turn, _ = turn_of(Refusal(grpc.StatusCode.NOT_FOUND))
    with pytest.raises(ClusterError, match="There is no such job"):
        turn.wait(1, lambda: False)
    turn.close("The job ends: cancelled.")
    with pytest.raises(ClusterError, match="cancelled"):
        turn.wait(1, lambda: False)
