"""Sessions of jobs: reports are kept, and only news wakes the queue."""

import datetime as dt
from dataclasses import replace

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.run import (
    MOST_ENDS,
    CompletedSessions,
    PodReadings,
    RunProgress,
    RunSession,
)
from appliance.core.errors import NotFoundError
from appliance.core.ids import JobId, PodName
from appliance.core.sparsity.masked_weights import MaskedWeights
from appliance.files.profiles import keep_profile, keep_wafer_picture
from appliance.management.jobs.run_sessions import RunSessions
from appliance.management.reconciler.mailbox import Mailbox, Wake
from appliance.management.reconciler.scheduling.run_progress import ProgressBook
from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from tests.support.clock import FakeClock
from tests.support.management import move, new_job

JOB = JobId("wsjob-a")
CHIEF = PodName("wsjob-a-chief-0")


@pytest.fixture
def state(tmp_path):
    database = Database.open_sqlite(tmp_path / "state.db")
    yield State.over(database, FakeClock())
    database.close()


def progress(step: int, *, at: float, pace: float = 1.0) -> RunProgress:
    return RunProgress(
        session=1, num_steps=600, completed_steps=step, step_seconds=pace, at_seconds=at
    )


def completed(longest: float, *ends: float, seconds: float | None = None) -> CompletedSessions:
    return CompletedSessions(
        count=len(ends),
        longest_seconds=longest if seconds is None else max(longest, seconds),
        last_end_seconds=ends[-1],
        ends_seconds=ends,
    )


def session(state: State, number: int, step: int, **traits) -> RunSession:
    told = {"is_training": True, "num_steps": 600, "step_seconds": 0.4, **traits}
    return RunSession(number=number, completed_steps=step, started_at=state.clock.now(), **told)


def test_only_an_end_that_moves_is_news() -> None:
    book = ProgressBook()
    assert not book.note(JOB, progress(0, at=0.0, pace=0.0))
    assert book.note(JOB, progress(10, at=10.0))
    assert not book.note(JOB, progress(100, at=101.0))
    assert not book.note(JOB, progress(200, at=240.0)), "40 s of 400 are a tenth"
    assert book.note(JOB, progress(201, at=250.0, pace=2.0))
    assert book.find(JOB) == progress(201, at=250.0, pace=2.0)
    book.forget(JOB)
    assert book.find(JOB) is None


def test_what_a_session_took_is_known_until_its_job_holds_nothing() -> None:
    book = ProgressBook()
    book.note(JOB, progress(0, at=100.0, pace=0.0))
    assert book.completed(JOB) is None
    book.complete(JOB, progress(600, at=340.0, pace=0.4))
    assert book.find(JOB) is None
    assert book.completed(JOB) == completed(240.0, 340.0)
    short = RunProgress(
        session=2, num_steps=3, completed_steps=3, step_seconds=0.5, at_seconds=350.0
    )
    book.complete(JOB, short)  # over before its first report
    assert book.completed(JOB) == completed(240.0, 340.0, 350.0)
    book.forget(JOB)
    assert book.completed(JOB) is None


def test_a_session_ends_with_its_last_step_not_with_what_its_client_still_fetches() -> None:
    book = ProgressBook()
    book.note(JOB, progress(0, at=100.0, pace=0.0))
    book.note(JOB, progress(600, at=160.0))
    book.note(JOB, progress(600, at=162.0))
    assert book.find(JOB) == progress(600, at=160.0)
    book.complete(JOB, progress(600, at=175.0))
    assert book.completed(JOB) == completed(75.0, 160.0, seconds=600.0)


def test_ends_of_ten_thousand_sessions_are_not_all_kept() -> None:
    book = ProgressBook()
    for number in range(1, MOST_ENDS + 3):
        told = replace(progress(600, at=float(number), pace=0.0), session=number)
        book.complete(JOB, told)
    found = book.completed(JOB)
    assert (found.count, found.last_end_seconds) == (MOST_ENDS + 2, MOST_ENDS + 2)
    assert found.ends_seconds == tuple(range(1, MOST_ENDS + 1))
    assert found.after(300.0).tail_seconds == 300 - MOST_ENDS - 2


def test_a_new_management_recalls_what_sessions_took(state) -> None:
    book = ProgressBook()
    start = state.clock.now()
    ended = session(state, 1, 600, ended_at=start + dt.timedelta(seconds=90))
    book.recall(JOB, [ended, session(state, 2, 3)])
    assert book.completed(JOB) == completed(90.0, start.timestamp() + 90)


def test_the_readings_of_a_session_stay_when_another_follows(state):
    job = state.jobs.create(new_job(JOB))
    mailbox = Mailbox()
    sessions = RunSessions(state, mailbox)
    sessions.note(job, session(state, 1, 300))
    assert mailbox.inbox.get_nowait() == Wake()
    assert sessions.progress(JOB).completed_steps == 300
    now = state.clock.now() + dt.timedelta(seconds=60)
    pods = {CHIEF: PodReadings(step=600, resident_bytes=7, readings={"wsc_x": 1.5})}
    sessions.note(job, session(state, 1, 600, ended_at=now, pods=pods))
    assert mailbox.inbox.get_nowait() == Wake()
    assert sessions.progress(JOB) is None
    masked = MaskedWeights(
        num_masked=2, num_sparse=1, num_elements=8, num_nonzeros=2, dense_because={"x": 1}
    )
    sessions.note(job, session(state, 2, 5, is_training=False, masked_weights=masked))
    training, evaluation = sessions.of_job(JOB)
    assert (training.completed_steps, training.pods) == (600, pods)
    assert (training.masked_weights, evaluation.masked_weights) == (None, masked)
    assert (evaluation.is_training, evaluation.ended_at) == (False, None)
    assert sessions.one(JOB, 1) == training
    with pytest.raises(NotFoundError, match=r"no session 3: it has run 2"):
        sessions.one(JOB, 3)


def test_a_job_that_was_queued_again_begins_with_its_first_session(state):
    job = state.jobs.create(new_job(JOB))
    first = session(state, 1, 600, ended_at=state.clock.now())
    state.run_sessions.keep(job.id, first)
    later = replace(first, completed_steps=3, ended_at=None, started_at=first.started_at)
    state.run_sessions.keep(job.id, later)
    assert state.run_sessions.of_job(JOB) == [later]


def test_a_session_goes_with_its_job(state):
    state.jobs.create(new_job(JOB))
    state.run_sessions.keep(JOB, session(state, 1, 3))
    move(state.jobs, JOB, state.jobs.load(JOB).phase, Phase.CANCELLED)
    state.jobs.delete(JOB)
    assert state.run_sessions.of_job(JOB) == []


def test_what_a_session_has_not_is_said_of_the_session(state, tmp_path):
    state.jobs.create(new_job(JOB, work_dir=str(tmp_path)))
    sessions = RunSessions(state, Mailbox())
    state.run_sessions.keep(JOB, session(state, 1, 3))
    keep_wafer_picture(tmp_path, 1, "{}")
    keep_profile(tmp_path, 1, [])
    assert sessions.wafer_picture(JOB) == sessions.wafer_picture(JOB, 1) == "{}"
    assert sessions.profile(JOB) == sessions.profile(JOB, 1)
    state.run_sessions.keep(JOB, session(state, 2, 0))
    for find in (sessions.wafer_picture, sessions.profile):
        with pytest.raises(NotFoundError, match=r"Session 2 of job wsjob-a has no p"):
            find(JOB, 2)
        with pytest.raises(NotFoundError, match=r"no session 3: it has run 2"):
            find(JOB, 3)
