"""Which SwarmX pods a job has, and who is below whom."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.cluster.swarmx_tree import (
    FAN_OUTS,
    MAX_FAN_OUT,
    best_fan_out,
    pod_above,
    swarmx_tree,
)
from appliance.core.errors import InternalError

sizes, fan_outs = st.integers(1, 300), st.sampled_from(FAN_OUTS)


def shape(num_systems, fan_out):
    """Return, for each pod, its children: systems as numbers, pods as words."""
    return [
        [child.first_system if child.pod is None else f"pod {child.pod}" for child in pod.children]
        for pod in swarmx_tree(num_systems, fan_out=fan_out)
    ]


def test_up_to_the_fan_out_one_pod_serves_every_system():
    assert shape(4, 4) == [[0, 1, 2, 3]]
    assert shape(1, 2) == [[0]]


def test_beyond_it_pods_serve_pods():
    assert shape(6, 4) == [["pod 1", "pod 2"], [0, 1, 2, 3], [4, 5]]
    assert shape(5, 2) == [["pod 1", 4], ["pod 2", "pod 3"], [0, 1], [2, 3]]


def test_a_system_that_is_left_over_needs_no_pod_of_its_own():
    assert shape(5, 4) == [["pod 1", 4], [0, 1, 2, 3]]


@given(sizes, fan_outs)
def test_every_system_is_below_one_pod_and_every_pod_below_an_earlier_one(num_systems, fan_out):
    pods = swarmx_tree(num_systems, fan_out=fan_out)
    assert [pod.index for pod in pods] == list(range(len(pods)))
    children = [(pod, child) for pod in pods for child in pod.children]
    assert sorted(child.first_system for _, child in children if child.pod is None) == list(
        range(num_systems)
    )
    assert sorted(child.pod for _, child in children if child.pod is not None) == list(
        range(1, len(pods))
    )
    for pod, child in children:
        if child.pod is None:
            assert child.num_systems == 1
            assert pod_above(pods, child.first_system) is pod
        else:
            assert pods[child.pod].parent == pod.index < child.pod
            first = child.first_system
            assert pods[child.pod].systems == range(first, first + child.num_systems)


@given(sizes, fan_outs)
def test_no_pod_has_more_children_than_the_fan_out_or_only_one(num_systems, fan_out):
    for pod in swarmx_tree(num_systems, fan_out=fan_out):
        assert len(pod.children) <= fan_out
        assert len(pod.children) > 1 or num_systems == 1


@given(sizes, fan_outs)
def test_the_tree_is_no_deeper_than_it_has_to_be(num_systems, fan_out):
    pods = swarmx_tree(num_systems, fan_out=fan_out)
    depth = 0
    for pod in pods:
        above, steps = pod, 1
        while above.parent is not None:
            above, steps = pods[above.parent], steps + 1
        depth = max(depth, steps)
    assert fan_out ** (depth - 1) < max(num_systems, 2)


@given(sizes, fan_outs)
def test_every_child_but_the_last_begins_and_ends_at_whole_subtrees(num_systems, fan_out):
    for pod in swarmx_tree(num_systems, fan_out=fan_out):
        width = pod.children[0].num_systems
        assert width & (width - 1) == 0
        assert all(child.first_system % width == 0 for child in pod.children)
        assert all(child.num_systems == width for child in pod.children[:-1])
        assert pod.children[-1].num_systems <= width


@pytest.mark.parametrize(("num_systems", "fan_out"), [(0, 2), (4, 1), (4, 3)])
def test_a_tree_that_cannot_be_is_our_defect(num_systems, fan_out):
    with pytest.raises(InternalError, match="SwarmX cannot be a tree"):
        swarmx_tree(num_systems, fan_out=fan_out)


@pytest.mark.parametrize(
    ("num_systems", "num_nodes", "num_pods"),
    [(1, 1, 1), (2, 3, 1), (16, 1, 1), (17, 1, 2), (8, 2, 3), (8, 0, 1), (3, 2, 2), (16, 5, 5)],
)
def test_nodes_share_the_children_and_one_node_has_as_few_pods_as_can_be(
    num_systems, num_nodes, num_pods
):
    fan_out = best_fan_out(num_systems, num_nodes, num_systems)
    assert len(swarmx_tree(num_systems, fan_out=fan_out)) == num_pods


@given(sizes)
def test_one_node_has_the_largest_fan_out(num_systems):
    assert best_fan_out(num_systems, 1, num_systems) == MAX_FAN_OUT


@pytest.mark.parametrize(
    ("num_systems", "num_nodes", "max_pods", "num_pods"),
    [(8, 2, 2, 1), (8, 2, 3, 3), (16, 5, 4, 3), (8, 2, 0, 1), (20, 2, 1, 3)],
)
def test_a_tree_has_no_more_pods_than_there_is_room_for_if_one_is_as_small(
    num_systems, num_nodes, max_pods, num_pods
):
    fan_out = best_fan_out(num_systems, num_nodes, max_pods)
    assert len(swarmx_tree(num_systems, fan_out=fan_out)) == num_pods
