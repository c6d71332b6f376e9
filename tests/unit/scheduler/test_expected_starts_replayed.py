"""What users are told of waiting jobs, against what came of them, on virtual time."""

import pytest

from benchmarks.expected_starts import errors, replay


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
