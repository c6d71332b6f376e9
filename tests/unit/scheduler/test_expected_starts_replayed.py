"""What users are told of waiting jobs, against what came of them, on virtual time."""

import pytest

from benchmarks.expected_starts import errors, job_errors, replay
from benchmarks.simulation.run_replay import Answer, Replayed


@pytest.fixture(scope="module")
def run():
    return replay(2, 60)


def test_no_answer_is_in_the_past_or_contradicts_another_or_its_own_sentence(run):
    assert run.contradictions == []
    assert len(run.answers) > 30


def test_who_waits_for_running_jobs_is_told_a_start_within_a_tenth_of_the_wait(run):
    found = errors([run], only_next=True)
    assert found.num_answers > 20
    assert found.median <= 0.1


def test_a_job_is_judged_by_its_first_answer_and_by_the_mean_of_all_over_its_whole_wait():
    def told(asked, start):
        return Answer(
            job=0, asked_seconds=asked, start_seconds=start, is_promised=False, basis="free by then"
        )

    run = Replayed(
        submits_seconds=[10.0, 10.0],
        starts_seconds=[110.0, None],
        answers=[told(20.0, 165.0), told(50.0, 85.0), told(80.0, 110.0)],
        contradictions=[],
    )
    found = job_errors([run])
    assert found.num_jobs == 1
    assert found.first == pytest.approx((0.5, 0.5))
    assert found.shown == pytest.approx((0.2167, 0.2167), abs=1e-4)
