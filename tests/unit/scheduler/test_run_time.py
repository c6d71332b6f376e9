"""How long a job will run: limit, history, default, and which of them counts for what."""

import math

from appliance.core.cluster.jobs import JobType
from appliance.scheduler.policy import Policy
from appliance.scheduler.queue import JobQueue
from appliance.scheduler.run_time import Basis, RunHistory
from tests.support.scheduling import execute

RUN = JobType.EXECUTE


def test_without_any_knowledge_the_default_is_expected_but_bounds_nothing():
    estimate = RunHistory(Policy(default_execute_seconds=500.0)).estimate("ada", "gpt", RUN)
    assert estimate.expected_seconds == 500.0
    assert estimate.basis is Basis.DEFAULT
    assert estimate.known_bound_seconds == math.inf


def test_the_last_two_runs_of_the_program_are_averaged():
    history = RunHistory()
    for seconds in (9000.0, 100.0, 300.0):
        history.observe("ada", "gpt", RUN, seconds)
    history.observe("ada", "bert", RUN, 7.0)
    estimate = history.estimate("ada", "gpt", RUN)
    assert estimate.expected_seconds == 200.0
    assert estimate.bound_seconds > 9000.0
    assert estimate.basis is Basis.PROGRAM


def test_an_unknown_program_is_expected_to_run_as_the_users_others():
    history = RunHistory()
    history.observe("ada", "gpt", RUN, 100.0)
    assert history.estimate("ada", "new", RUN).basis is Basis.USER
    assert history.estimate("bob", "gpt", RUN).basis is Basis.DEFAULT


def test_other_programs_of_the_user_bound_nothing():
    history = RunHistory()
    history.observe("ada", "test", RUN, 1.0)
    assert history.estimate("ada", "train", RUN).known_bound_seconds == math.inf
    assert history.estimate("ada", "test", RUN).known_bound_seconds < 10.0
    assert history.estimate("ada", "train", RUN, 60.0).known_bound_seconds == 60.0


def test_a_limit_bounds_but_history_is_expected():
    history = RunHistory()
    history.observe("ada", "gpt", RUN, 100.0)
    estimate = history.estimate("ada", "gpt", RUN, 3600.0)
    assert (estimate.expected_seconds, estimate.bound_seconds) == (100.0, 3600.0)
    short = history.estimate("ada", "gpt", RUN, 50.0)
    assert (short.expected_seconds, short.bound_seconds) == (50.0, 50.0)
    assert short.basis is Basis.LIMIT


def test_jobs_that_wait_already_follow_what_is_learned():
    queue = JobQueue(
        [
            execute("own", 1, user="ada", program="gpt"),
            execute("limited", 1, user="ada", program="gpt", limit_seconds=50.0),
            execute("other", 1, user="ada", program="new"),
            execute("foreign", 1, user="bob", program="gpt"),
        ]
    )
    queue.history.observe("ada", "gpt", RUN, 100.0)
    queue.relearn("ada", "gpt", RUN)
    fresh = JobQueue(list(queue), queue.history)
    for job in queue:
        mine, other = queue.slot_of(job.id), fresh.slot_of(job.id)
        assert queue.columns.expected[mine] == fresh.columns.expected[other]
        assert queue.columns.bound[mine] == fresh.columns.bound[other]
        assert queue.columns.known_bound[mine] == fresh.columns.known_bound[other]
