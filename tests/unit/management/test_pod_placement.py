"""On which nodes the pods of a job run."""

from collections import Counter
from dataclasses import replace

import pytest

from appliance.cluster.node_cores import NodeCores
from appliance.cluster.node_links import NodeView
from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import Holding, PodPlacement
from appliance.core.cluster.requirements import NODE_ROLES, Requirements
from appliance.core.cluster.swarmx_tree import best_fan_out, swarmx_tree
from appliance.core.cluster.systems import ClusterDescription, Node, NodeGroup, System
from appliance.core.errors import ClusterError
from appliance.management.cluster.pod_placement import joined_nodes, missing_roles, place_pods
from tests.unit.management.test_pod_specs import record

CLUSTER = ClusterDescription(
    systems=tuple(System(name=f"systemf{index}") for index in range(4)),
    node_groups=tuple(NodeGroup(name=f"nodegroup{index}") for index in range(2)),
)


def view(name: str, *roles: str) -> NodeView:
    return NodeView(
        name=name, address="", roles=roles, cores=NodeCores(num_cores=4), memory_bytes=100
    )


NODES = (
    view("csx-0", "activation"),
    view("csx-1", "activation"),
    view("head", "management", "broadcastreduce"),
    view("input-0", "worker"),
    view("input-1", "worker"),
    view("mem-0", "memory"),
    view("mem-1", "memory"),
)


def execute(*systems: str, group: str = "nodegroup0", pods=(), workers: int = 1):
    job = record(JobType.EXECUTE, num_systems=len(systems), workers=workers)
    return replace(job, systems=systems, holding=Holding(node_groups=(group,), pods=pods))


def test_a_system_keeps_its_node_whoever_holds_it():
    both = place_pods(execute("systemf0", "systemf1"), CLUSTER, NODES)
    one = place_pods(execute("systemf1"), CLUSTER, NODES)
    assert (both["chief-0"], both["chief-1"]) == ("csx-0", "csx-1")
    assert one["chief-0"] == one["activation-0"] == "csx-1"


def test_weight_pods_have_the_nodes_of_their_groups_in_turn():
    job = execute("systemf0", group="nodegroup1")
    job = replace(job, requirements=Requirements(num_shards=3))
    pair = replace(
        CLUSTER, node_groups=(CLUSTER.node_groups[0], replace(CLUSTER.node_groups[1], num_nodes=2))
    )
    nodes = (*NODES, view("mem-2", "memory"))
    places = place_pods(job, pair, nodes)
    assert [places[f"weight-{shard}"] for shard in range(3)] == ["mem-1", "mem-2", "mem-1"]
    free = replace(job, holding=replace(job.holding, node_groups=()))
    places = place_pods(free, replace(CLUSTER, node_groups=()), nodes)
    assert len({places[f"weight-{shard}"] for shard in range(3)}) == 3


def test_every_pod_has_a_node_with_its_role():
    places = place_pods(execute("systemf0", "systemf1", group="nodegroup1"), CLUSTER, NODES)
    assert places == {
        "coordinator-0": "head",
        "weight-0": "mem-1",
        "broadcastreduce-0": "head",
        "chief-0": "csx-0",
        "activation-0": "csx-0",
        "chief-1": "csx-1",
        "activation-1": "csx-1",
        "worker-0": "input-0",
        "worker-1": "input-1",
    }


def test_what_the_scheduler_counted_runs_where_it_counted():
    rows = (("csx-1", "activation", 4, 400, 0), ("input-1", "worker", 2, 10, 0))
    counted = tuple(map(PodPlacement.of, rows))
    places = place_pods(execute("systemf0", "systemf2", pods=counted), CLUSTER, NODES)
    pairs = [places[f"{role}-{index}"] for role in ("chief", "activation") for index in range(2)]
    assert pairs == ["csx-1"] * 4
    assert [places["worker-0"], places["worker-1"]] == ["input-1", "input-1"]


def test_swarmx_pods_are_spread_beside_whom_they_feed():
    job = execute(*(f"systemf{index}" for index in range(4)))
    job = replace(job, requirements=Requirements(fan_out=2))
    apart = (*NODES, view("swx-0", "broadcastreduce"))
    places = place_pods(job, CLUSTER, apart)
    swarmx = [f"broadcastreduce-{index}" for index in range(3)]
    assert [places[name] for name in swarmx] == ["swx-0", "head", "swx-0"]
    beside = tuple(
        replace(each, roles=(*each.roles, "broadcastreduce"))
        if each.name in ("csx-1", "mem-0")
        else each
        for each in apart
    )
    three = replace(job, systems=job.systems[1:], num_systems=3)
    places = place_pods(three, CLUSTER, beside)
    assert [places[name] for name in swarmx[:2]] == ["mem-0", "csx-1"]


def test_nodes_of_all_roles_share_the_children_of_swarmx_pods():
    names = [f"systemf{index}" for index in range(16)]
    cluster = replace(CLUSTER, systems=tuple(System(name=name) for name in names))
    nodes = tuple(view(f"node-{index}", *NODE_ROLES) for index in range(4))
    fan_out = best_fan_out(16, 4, 16)
    job = replace(execute(*names), requirements=Requirements(fan_out=fan_out))
    places = place_pods(job, cluster, nodes)
    fed: Counter[str] = Counter()
    for pod in swarmx_tree(16, fan_out=fan_out):
        fed[places[f"broadcastreduce-{pod.index}"]] += len(pod.children)
    assert max(fed.values()) <= 10, fed


def test_a_compile_needs_one_node_and_a_missing_role_is_named():
    job = record(JobType.COMPILE)
    assert place_pods(job, CLUSTER, NODES) == {"coordinator-0": "head"}
    with pytest.raises(ClusterError, match="role 'management', and none of the 2 nodes"):
        place_pods(job, CLUSTER, NODES[:2])
    assert missing_roles(NODES) == ()
    assert missing_roles(NODES[:3]) == ("memory", "worker")


def test_a_node_is_as_large_as_the_cluster_file_says():
    described = [Node(name="csx-0", roles=("worker",), num_cores=64, memory_bytes=9000)]
    first, second = joined_nodes(described, NODES[:2])
    assert (first.roles, first.num_cores, first.memory_bytes) == (("activation",), 64, 9000)
    assert (second.num_cores, second.memory_bytes) == (4, 100)
