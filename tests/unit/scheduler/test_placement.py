"""Which systems a gang gets, and what-if that undoes itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.cluster.requirements import PodDemand
from appliance.core.cluster.systems import Node
from appliance.scheduler.admission import Admit
from appliance.scheduler.placement import Capacity, Frame, choose_systems
from tests.support.scheduling import (
    GIB,
    admitted,
    cluster,
    compile_,
    cycle,
    execute,
    held,
    management_node,
)

BLOCKS = [0b000011, 0b111100]


@pytest.mark.parametrize(
    ("free", "count", "want"),
    [
        pytest.param(0b111111, 2, 0b000011, id="the smallest block that holds all"),
        pytest.param(0b111111, 3, 0b011100, id="a larger block stays whole where it can"),
        pytest.param(0b011111, 5, 0b011111, id="as few blocks as possible"),
        pytest.param(0b100100, 1, 0b000100, id="the lowest of a block"),
        pytest.param(0b000001, 2, None, id="not enough"),
    ],
)
def test_a_gang_stays_close_together(free, count, want):
    assert choose_systems(free, count, BLOCKS) == want


@given(
    st.integers(0, 255),
    st.integers(0, 8),
    st.lists(st.integers(0, 255), max_size=4),
    st.integers(0, 255),
)
def test_a_choice_is_free_systems_and_exactly_as_many(free, count, blocks, preferred):
    chosen = choose_systems(free, count, blocks, preferred)
    assert (chosen is None) == (free.bit_count() < count)
    if chosen is not None:
        assert chosen.bit_count() == count
        assert chosen & ~free == 0


def test_a_job_is_kept_within_one_switch():
    blocks = {"s0": "a", "s1": "b", "s2": "b", "s3": "b"}
    assert admitted(cycle(cluster(4, blocks=blocks), [execute("j", 2)])) == {"j": ("s1", "s2")}


def test_giving_back_what_a_job_holds_can_be_undone():
    grant = held("x", "s0", "s2")
    frame = Frame(cluster(3, grant))
    capacity = Capacity(frame)
    capacity.take(frame.held(grant))
    undo = capacity.give(frame.held(grant))
    assert capacity.systems == 0b111
    undo()
    assert capacity.systems == 0b010


def test_memory_that_is_given_back_is_taken_again_by_undoing_that():
    nodes = (management_node(64),)
    (decision,) = cycle(cluster(0, nodes=nodes), [compile_("c", memory_gib=10)]).decisions
    frame = Frame(cluster(0, decision.grant, nodes=nodes))
    capacity = Capacity(frame)
    capacity.take(frame.held(decision.grant))
    undo = capacity.give(frame.held(decision.grant))
    assert capacity.memory == [64 * GIB]
    undo()
    assert capacity.memory == [54 * GIB]


@pytest.mark.parametrize(
    ("role", "shares"), [("broadcastreduce", {"n0": 2, "n1": 1}), ("worker", {"n0": 3})]
)
def test_a_tree_shares_nodes_and_other_pods_leave_whole_nodes_to_others(role, shares):
    nodes = tuple(
        Node(name=name, roles=(role,), num_cores=8, memory_bytes=128 * GIB) for name in ("n0", "n1")
    )
    pods = (PodDemand(role=role, count=3, memory_bytes=10 * GIB),)
    (decision,) = cycle(cluster(1, nodes=nodes), [execute("j", 1, pods=pods)]).decisions
    assert isinstance(decision, Admit)
    assert {pod.node: pod.count for pod in decision.grant.pods} == shares


def test_systems_that_are_gone_are_held_by_nobody():
    frame = Frame(cluster(2))
    grant = held("x", "s1", "gone", reserved_systems=("s1", "gone-too"))
    assert frame.held(grant).systems == 0b10


def test_what_a_placement_without_pods_gives_back_is_its_systems_alone():
    frame = Frame(cluster(3, nodes=(management_node(4),)))
    given = frame.columns_of(frame.held(held("x", "s0", "s2")))
    assert (given[0], given.sum()) == (2, 2)
