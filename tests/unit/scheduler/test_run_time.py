"""How long a job will run: limit, history, default, and which of them counts for what."""

import math

import pytest

from appliance.core.cluster.jobs import JobType
from appliance.scheduler.policy import Policy
from appliance.scheduler.queue import JobQueue
from appliance.scheduler.run_time import Basis, Origin, RunHistory
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
    assert history.estimate("bob", "gpt", RUN).basis is Basis.OTHERS
    assert history.estimate("bob", "gpt", JobType.COMPILE).basis is Basis.DEFAULT


def test_a_new_program_is_expected_between_the_users_programs_and_those_of_all():
    def expected(runs, user):
        history = RunHistory()
        for who, program, seconds in runs:
            history.observe(who, program, RUN, seconds)
        return history.estimate(user, "new", RUN).expected_seconds

    short = [("ada", f"short{number}", 10.0) for number in range(14)]
    long = [("bob", f"long{number}", 1000.0) for number in range(14)]
    assert expected([*short, *long], "eve") == pytest.approx(100.0)
    assert expected([*short, *long], "ada") == pytest.approx(10 ** (1 + 6 / 20))
    sweep = [("ada", "sweep", 10.0)] * 50
    assert expected([*sweep, ("bob", "long", 1000.0)], "eve") == pytest.approx(100.0), "one program"
    again = [*sweep, ("ada", "sweep", 1000.0)]
    assert expected(again, "ada") == pytest.approx(1000.0), "its last run"


def test_a_guess_by_others_bounds_nothing_and_no_limit_is_exceeded():
    history = RunHistory(Policy(default_execute_seconds=500.0))
    history.observe("ada", "gpt", RUN, 100.0)
    guess = history.estimate("bob", "new", RUN)
    assert (guess.expected_seconds, guess.known_bound_seconds) == (pytest.approx(100.0), math.inf)
    limited = history.estimate("bob", "new", RUN, 50.0)
    assert (limited.expected_seconds, limited.basis) == (50.0, Basis.LIMIT)


def test_jobs_of_no_known_program_are_expected_to_run_as_the_users_last_two():
    history = RunHistory()
    for seconds in (9000.0, 100.0, 300.0):
        history.observe("ada", "", RUN, seconds)
    assert history.estimate("ada", "", RUN).expected_seconds == 200.0


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
            execute("foreign-limited", 1, user="bob", program="gpt", limit_seconds=50.0),
        ]
    )
    for seconds in (100.0, 101.0, 900.0):  # of which the second changes nothing for others
        queue.history.observe("ada", "gpt", RUN, seconds)
        queue.relearn({Origin("ada", "gpt", RUN)})
    fresh = JobQueue(list(queue), queue.history)
    for job in queue:
        mine, other = queue.slot_of(job.id), fresh.slot_of(job.id)
        assert queue.columns.expected[mine] == fresh.columns.expected[other]
        assert queue.columns.bound[mine] == fresh.columns.bound[other]
        assert queue.columns.known_bound[mine] == fresh.columns.known_bound[other]


def test_what_jobs_take_that_are_cut_short_lowers_the_share_that_jobs_take_on_average():
    history = RunHistory()
    assert history.spent_share(RUN) == 1.0
    for _ in range(92):
        history.observe("ada", "gpt", RUN, 100.0)
    assert history.spent_share(RUN) == 1.0
    for seconds in (0.0, 25.0, 75.0, 100.0) * 3:
        history.observe_cut("ada", "gpt", RUN, seconds)
    assert history.spent_share(RUN) == pytest.approx(1 - 12 * 0.5 / 112)
    assert history.estimate("ada", "gpt", RUN).expected_seconds == 100.0


def test_the_first_end_counts_as_one_of_nine_and_those_of_long_ago_ever_less():
    history = RunHistory()
    history.observe("ada", "gpt", JobType.COMPILE, 100.0)
    history.observe("ada", "gpt", RUN, 100.0)
    history.observe_cut("ada", "gpt", RUN, 0.0)
    assert history.spent_share(RUN) == pytest.approx(1 - 1 / 10)
    for _ in range(1000):
        history.observe_cut("ada", "gpt", RUN, 50.0)
    before = history.spent_share(RUN)
    history.observe_cut("ada", "gpt", RUN, 0.0)
    assert history.spent_share(RUN) == pytest.approx(before * (1 - 1 / 256))


def test_a_cut_run_counts_by_what_is_known_of_its_like():
    def share_after(user, program, seconds, job_type=RUN):
        history = RunHistory()
        history.observe("ada", "gpt", job_type, 100.0)
        history.observe_cut(user, program, job_type, seconds)
        return history.spent_share(RUN)

    assert share_after("ada", "gpt", 0.0) == pytest.approx(0.9)
    assert share_after("ada", "new", 50.0) == pytest.approx(0.95)
    assert share_after("ada", "gpt", 5000.0) == 1.0  # it has taken no more than a whole run
    assert share_after("bob", "gpt", 1.0) == 1.0  # nothing is known of what bob's take
    assert share_after("ada", "gpt", 0.0, JobType.SDK_EXECUTE) == pytest.approx(0.9)
    assert share_after("ada", "gpt", 0.0, JobType.COMPILE) == 1.0
