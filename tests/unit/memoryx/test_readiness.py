from tests.support.plans import two_layer_plan
from workers.memoryx.readiness import Readiness

# The events of a step of the two-layer plan, in order:
#  1 the step begins    2 update 0 (gs)
#  3 sums of fc1.fwd    4 sums of fc2.fwd   5 sums of loss      6 update 1 (loss)
#  7 sums of fc2.bwd    8 update 2 (w2)     9 sums of fc1.bwd  10 update 3 (w1, scale)
FC1, FC2, LOSS, FC2_BACK, FC1_BACK = range(5)


def test_a_step_is_made_of_arrivals_and_updates():
    readiness = Readiness(two_layer_plan())
    assert readiness.num_events == 10
    assert [point.layer_step for point in readiness.points] == [-1, 0, 1, 2, 3, 4]
    assert [point.updates for point in readiness.points] == [(0,), (), (), (1,), (2,), (3,)]


def test_state_of_the_first_step_is_ready_from_the_start():
    assert Readiness(two_layer_plan()).events_needed(0, FC1) == 0


def test_state_of_a_later_step_waits_for_its_own_commit_and_no_other():
    readiness = Readiness(two_layer_plan())
    assert readiness.events_needed(1, FC1) == 10
    assert readiness.events_needed(1, FC2) == 8
    assert readiness.events_needed(3, FC2_BACK) == 28


def test_a_computed_value_waits_for_its_update_in_the_same_step():
    readiness = Readiness(two_layer_plan())
    assert readiness.events_needed(0, LOSS) == 2
    assert readiness.events_needed(2, LOSS) == 22


def test_what_is_said_of_a_step_waits_until_it_has_begun():
    readiness = Readiness(two_layer_plan(), once_begun={FC2_BACK, FC1_BACK})
    assert readiness.events_needed(0, FC1_BACK) == 1
    assert readiness.events_needed(2, FC1_BACK) == 21
    assert readiness.events_needed(2, FC2_BACK) == 21, "its load waits for event 8 of step 1"
    assert readiness.events_needed(2, FC1) == 20


def test_a_layer_step_without_loads_is_always_ready():
    assert Readiness(two_layer_plan()).events_needed(7, FC1_BACK) == 0
