import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.errors import InternalError
from appliance.swarmx.tree import Addition, additions

leaves = st.integers(1, 60)
fan_ins = st.integers(2, 9)


def addition(target, source):
    return Addition(target=target, source=source)


def test_four_leaves_with_fan_in_two_meet_in_pairs():
    assert additions(4, fan_in=2) == (addition(0, 1), addition(2, 3), addition(0, 2))


def test_an_incomplete_tree_leaves_out_what_is_not_there():
    assert additions(5, fan_in=2) == (
        addition(0, 1), addition(2, 3), addition(0, 2), addition(0, 4)
    )  # fmt: skip


def test_a_node_adds_its_children_from_left_to_right():
    assert additions(3, fan_in=4) == (addition(0, 1), addition(0, 2))


def test_one_leaf_is_its_own_sum():
    assert additions(1, fan_in=4) == ()


@given(leaves, fan_ins)
def test_leaf_zero_ends_up_with_every_leaf_once(num_leaves, fan_in):
    held = [{leaf: 1} for leaf in range(num_leaves)]
    for step in additions(num_leaves, fan_in=fan_in):
        assert held[step.source], "a leaf is used after it was added elsewhere"
        for leaf, count in held[step.source].items():
            held[step.target][leaf] = held[step.target].get(leaf, 0) + count
        held[step.source] = {}
    assert held[0] == dict.fromkeys(range(num_leaves), 1)


@given(leaves, fan_ins)
def test_an_addition_never_waits_for_a_later_leaf_than_its_source(num_leaves, fan_in):
    arrived = 0
    for step in additions(num_leaves, fan_in=fan_in):
        assert step.target < step.source
        arrived = max(arrived, step.source)
        assert step.source <= arrived


@given(leaves, fan_ins)
def test_the_root_comes_last(num_leaves, fan_in):
    steps = additions(num_leaves, fan_in=fan_in)
    assert not steps or steps[-1].target == 0


@pytest.mark.parametrize(("num_leaves", "fan_in"), [(0, 2), (3, 1)])
def test_a_tree_without_leaves_or_branches_is_our_defect(num_leaves, fan_in):
    with pytest.raises(InternalError, match="A tree needs leaves"):
        additions(num_leaves, fan_in=fan_in)
