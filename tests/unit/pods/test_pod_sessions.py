"""The life of a pod's sessions: one at a time, the first failure reported once, always freed."""

import threading
from types import SimpleNamespace

import pytest

from appliance.core.cluster.run import RunSchedule
from appliance.core.errors import ClusterError, ConflictError, StreamAbandonedError
from appliance.pods.pod_sessions import SessionRun, SessionServicer
from appliance.pods.role_context import Progress
from protos.wsc.v1 import pods_pb2

SCHEDULE = RunSchedule(num_steps=1, output_interval=1, checkpoint_steps=frozenset())


class PlayedSession:
    """A session whose loops are given; closing it wakes those that wait for `closed`."""

    def __init__(self, **loops):
        self.loops = loops
        self.closed = threading.Event()
        self.num_closed = 0

    def start(self, schedule):
        return self.loops

    def close(self):
        self.num_closed += 1
        self.closed.set()

    def wait(self):
        assert self.closed.wait(120)

    def wait_and_fail(self):
        self.wait()
        raise ClusterError("The stream is closed.")


class PlayedContext:
    """What a session uses of its pod; keeps the reported failures and the order of events."""

    def __init__(self):
        self.spec = SimpleNamespace(name="wsjob-p-weight-0")
        self.progress = Progress()
        self.streams = SimpleNamespace(meet=lambda addresses: None)
        self.failures = []
        self.stopped = []

    def report_failure(self, failure):
        self.failures.append(failure)

    def stop(self, reason):
        self.stopped.append(reason)


def fail():
    raise ClusterError("Gradients of 'fc1' are not finite.")


def abandon():
    raise StreamAbandonedError("Stream 'sums-0' was abandoned by its writer.")


@pytest.fixture
def context():
    return PlayedContext()


def ran(context, session):
    run = SessionRun(1, session, context)
    run.start(SCHEDULE)
    session.wait()
    run.finish(wait_for_steps=True)


def test_the_first_failure_is_reported_and_those_that_follow_from_it_are_not(context):
    session = PlayedSession()
    session.loops = {"update": fail, "announce": session.wait_and_fail}
    ran(context, session)
    assert [each.message for each in context.failures] == ["Gradients of 'fc1' are not finite."]
    assert session.num_closed == 1


def test_a_failure_is_reported_before_closing_makes_other_pods_fail(context):
    session = PlayedSession(update=fail)
    closed_when_told = []
    context.report_failure = lambda failure: closed_when_told.append(session.closed.is_set())
    ran(context, session)
    assert closed_when_told == [False]


def test_an_unexpected_exception_names_the_pod_and_the_loop(context):
    def divide():
        return 1 / 0

    ran(context, PlayedSession(update=divide))
    (failure,) = context.failures
    assert failure.message.startswith("wsjob-p-weight-0 failed in its update loop: ZeroDivision")
    assert "1 / 0" in failure.detail


def test_an_abandoned_stream_ends_the_session_without_a_report(context):
    session = PlayedSession(reduce=abandon)
    ran(context, session)
    assert context.failures == []
    assert session.num_closed == 1


def test_giving_up_wakes_loops_that_wait_and_reports_nothing(context):
    session = PlayedSession()
    session.loops = {"announce": session.wait_and_fail}
    run = SessionRun(1, session, context)
    run.start(SCHEDULE)
    run.finish(wait_for_steps=False)
    assert session.num_closed == 1
    assert context.failures == []


def test_a_session_starts_once(context):
    run = SessionRun(3, PlayedSession(), context)
    run.start(SCHEDULE)
    with pytest.raises(ConflictError, match="Session 3 has been started"):
        run.start(SCHEDULE)


class Pod:
    """The servicer of a pod whose role makes played sessions."""

    def __init__(self, context):
        self.sessions = []
        self.servicer = SessionServicer(context, self)

    def load(self, request):
        if request.session == 13:
            raise ClusterError("There is no memory.")
        self.sessions.append(PlayedSession())
        return self.sessions[-1]

    def Load(self, number):
        self.servicer.Load(pods_pb2.LoadRequest(session=number), None)

    def Start(self, number):
        self.servicer.Start(pods_pb2.StartRequest(session=number, num_steps=1), None)

    def Finish(self, number):
        return self.servicer.Finish(pods_pb2.FinishRequest(session=number), None)


@pytest.fixture
def pod(context):
    return Pod(context)


def test_a_pod_has_one_session_after_the_other(pod):
    pod.Load(1)
    with pytest.raises(ConflictError, match="session 2 while session 1 is not finished"):
        pod.Load(2)
    pod.Start(1)
    pod.Finish(1)
    assert not pod.servicer.has_session
    pod.Load(2)
    assert pod.servicer.has_session
    assert [session.num_closed for session in pod.sessions] == [1, 0]


def test_a_call_for_another_session_says_which_one_there_is(pod):
    with pytest.raises(ConflictError, match="session 1 but has none"):
        pod.Start(1)
    pod.Load(4)
    with pytest.raises(ConflictError, match="session 1 but has session 4"):
        pod.Finish(1)


def test_a_load_that_fails_leaves_room_for_the_next(pod):
    with pytest.raises(ClusterError, match="no memory"):
        pod.Load(13)
    pod.Load(14)
    assert pod.servicer.has_session


def test_the_answer_to_finish_says_how_far_the_session_came(pod, context):
    pod.Load(1)
    pod.Start(1)
    context.progress.record(step=7, readings={"samples": 56.0})
    answer = pod.Finish(1)
    assert answer.steps_completed == 7
    assert dict(answer.readings) == {"samples": 56.0}


def test_a_pod_that_ends_frees_a_session_that_is_not_finished(pod):
    pod.Load(1)
    pod.servicer.close()
    pod.servicer.close()
    assert [session.num_closed for session in pod.sessions] == [1]
