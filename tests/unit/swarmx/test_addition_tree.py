import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.errors import InternalError
from workers.swarmx.addition_tree import Addition, additions

leaves = st.integers(1, 60)


def addition(target, source):
    return Addition(target=target, source=source)


def test_four_leaves_meet_in_pairs():
    assert additions(4) == (addition(0, 1), addition(2, 3), addition(0, 2))


def test_an_incomplete_tree_leaves_out_what_is_not_there():
    assert additions(5) == (addition(0, 1), addition(2, 3), addition(0, 2), addition(0, 4))
    assert additions(7)[-3:] == (addition(4, 5), addition(4, 6), addition(0, 4))


def test_one_leaf_is_its_own_sum():
    assert additions(1) == ()


@given(leaves)
def test_leaf_zero_ends_up_with_every_leaf_once(num_leaves):
    held = [{leaf: 1} for leaf in range(num_leaves)]
    for step in additions(num_leaves):
        assert held[step.source], "a leaf is used after it was added elsewhere"
        for leaf, count in held[step.source].items():
            held[step.target][leaf] = held[step.target].get(leaf, 0) + count
        held[step.source] = {}
    assert held[0] == dict.fromkeys(range(num_leaves), 1)


@given(leaves)
def test_an_addition_never_waits_for_a_later_leaf_than_its_source(num_leaves):
    arrived = 0
    for step in additions(num_leaves):
        assert step.target < step.source
        arrived = max(arrived, step.source)
        assert step.source <= arrived


@given(leaves)
def test_the_root_comes_last(num_leaves):
    steps = additions(num_leaves)
    assert not steps or steps[-1].target == 0


def test_a_tree_without_leaves_is_our_defect():
    with pytest.raises(InternalError, match="A tree needs leaves"):
        additions(0)
