"""What a request will hold beyond its systems."""

from dataclasses import replace

import pytest

from appliance.core.cluster.requirements import GroupKind, PodDemand, Requirements
from appliance.core.cluster.systems import ClusterDescription, Node, NodeGroup, System
from appliance.core.plans.shard_count import MemoryNodes
from appliance.management.cluster.demands import memory_nodes, requirements_of
from appliance.wire.requests.submissions import compile_submission, execute_submission
from protos.appliance.common_config_pb2 import DebugArgs, JobMode
from protos.cluster.cluster_pb2 import CompileJobRequest
from tests.support.appliance_process import execute_request

GIB = 2**30
CLUSTER = ClusterDescription(
    systems=(System(name="s"),),
    node_groups=(NodeGroup(name="g"),),
    pod_memory_bytes={"compile": 67 * GIB, "execute": 32 * GIB, "worker": GIB},
)


def test_an_execute_job_takes_a_node_group_and_the_clusters_memory():
    wanted = requirements_of(execute_submission(execute_request(2, 3)), CLUSTER)
    assert (wanted.num_node_groups, wanted.group_kind) == (1, GroupKind.REGULAR)
    assert wanted.pods == (
        PodDemand(role="management", count=1, memory_bytes=32 * GIB),
        PodDemand(role="worker", count=6, memory_bytes=GIB),
    )


def test_what_a_request_names_goes_before_the_clusters_defaults():
    request = execute_request(1, 1)
    manager, user = request.debug_args.debug_mgr, request.debug_args.debug_usr
    manager.num_populated_nodegroups = 2
    manager.populated_group_types.append(DebugArgs.DebugMGR.POPULATED_GROUP_TYPE_XLARGE)
    user.execute_coord_resource.memory_bytes = -1
    user.activation_resource.memory_bytes = 5 * GIB
    wanted = requirements_of(execute_submission(request), CLUSTER)
    assert (wanted.num_node_groups, wanted.group_kind) == (2, GroupKind.XLARGE)
    assert wanted.pods == (
        PodDemand(role="activation", count=1, memory_bytes=5 * GIB),
        PodDemand(role="worker", count=1, memory_bytes=GIB),
    )


@pytest.mark.parametrize(
    ("num_shards", "num_nodes", "num_groups"), [(1, 1, 1), (2, 1, 2), (5, 1, 3), (5, 4, 2)]
)
def test_weight_pods_take_groups_with_a_node_for_each_as_far_as_there_are(
    num_shards, num_nodes, num_groups
):
    groups = tuple(NodeGroup(name=f"g{index}", num_nodes=num_nodes) for index in range(3))
    cluster = ClusterDescription(systems=CLUSTER.systems, node_groups=groups)
    submission = replace(execute_submission(execute_request(1, 1)), num_shards=num_shards)
    wanted = requirements_of(submission, cluster)
    assert (wanted.num_shards, wanted.num_node_groups) == (num_shards, num_groups)
    assert Requirements.from_dict(wanted.to_dict()) == wanted


def test_no_job_takes_groups_for_its_weight_pods_that_it_may_not_have():
    groups = (
        NodeGroup(name="a", kind=GroupKind.XLARGE),
        NodeGroup(name="b"),
        NodeGroup(name="c"),
        NodeGroup(name="d", is_healthy=False),
    )
    cluster = ClusterDescription(systems=CLUSTER.systems, node_groups=groups)
    submission = replace(execute_submission(execute_request(1, 1)), num_shards=4)
    assert requirements_of(submission, cluster).num_node_groups == 3
    assert requirements_of(submission, cluster, max_groups=2).num_node_groups == 2
    assert requirements_of(submission, cluster, max_groups=0).num_node_groups == 1
    picky = replace(submission, group_kind=GroupKind.XLARGE)
    assert requirements_of(picky, cluster).num_node_groups == 1
    assert memory_nodes(cluster, 0, max_groups=2).num_nodes == 2


def test_memoryx_may_have_the_nodes_of_healthy_groups_or_those_with_its_role():
    groups = (
        NodeGroup(name="a", num_nodes=2, memory_bytes=9),
        NodeGroup(name="b", num_nodes=1, memory_bytes=5),
        NodeGroup(name="c", num_nodes=4, memory_bytes=1, is_healthy=False),
    )
    nodes = (
        Node(name="x", roles=("memory",), num_cores=1, memory_bytes=7),
        Node(name="y", roles=("worker",), num_cores=1, memory_bytes=7),
    )
    grouped = ClusterDescription(systems=(), node_groups=groups, nodes=nodes)
    assert memory_nodes(grouped, 0) == MemoryNodes(num_nodes=3, node_bytes=5)
    assert memory_nodes(grouped, 3) == MemoryNodes(num_nodes=3, node_bytes=3)
    joined = ClusterDescription(systems=(), nodes=nodes)
    assert memory_nodes(joined, 0) == MemoryNodes(num_nodes=1, node_bytes=7)
    assert memory_nodes(ClusterDescription(systems=()), 0) == MemoryNodes()


@pytest.mark.parametrize(("asked", "got"), [(0, 67 * GIB), (200 * GIB, 200 * GIB)])
def test_a_compile_job_takes_management_memory_and_no_group(asked, got):
    request = CompileJobRequest(job_mode=JobMode(job=JobMode.COMPILE))
    request.debug_args.debug_usr.compile_coord_resource.memory_bytes = asked
    wanted = requirements_of(compile_submission(request), CLUSTER)
    assert wanted.num_node_groups == 0
    assert wanted.pods == (PodDemand(role="management", count=1, memory_bytes=got),)


def test_nothing_is_counted_where_nothing_is_declared():
    bare = ClusterDescription(systems=CLUSTER.systems)
    wanted = requirements_of(execute_submission(execute_request(1, 1)), bare)
    assert wanted.to_dict() == {}


@pytest.mark.parametrize(
    ("num_systems", "num_nodes", "gib", "fan_out", "num_pods"),
    [
        (8, 1, 1, 16, 1),
        (8, 2, 1, 4, 3),
        (3, 2, 1, 2, 2),
        (20, 1, 1, 16, 3),
        (40, 2, 1, 16, 1),
        pytest.param(8, 2, 32, 4, 3, id="two pods on one node"),
        pytest.param(8, 2, 33, 16, 1, id="one pod on each node: three are too many"),
    ],
)
def test_swarmx_pods_follow_from_the_systems_and_the_nodes_for_them(
    num_systems, num_nodes, gib, fan_out, num_pods
):
    cluster = ClusterDescription(
        systems=tuple(System(name=f"s{index}") for index in range(20)),
        nodes=tuple(
            Node(name=f"n{index}", roles=("broadcastreduce",), num_cores=1, memory_bytes=64 * GIB)
            for index in range(num_nodes)
        ),
        pod_memory_bytes={"broadcastreduce": gib * GIB},
    )
    wanted = requirements_of(execute_submission(execute_request(num_systems, 1)), cluster)
    assert wanted.fan_out == fan_out
    (pods,) = wanted.pods
    assert pods == PodDemand(role="broadcastreduce", count=num_pods, memory_bytes=gib * GIB)
    assert Requirements.from_dict(wanted.to_dict()) == wanted


def test_the_tree_fits_the_memory_that_a_request_names_for_its_pods():
    cluster = ClusterDescription(
        systems=tuple(System(name=f"s{index}") for index in range(8)),
        nodes=tuple(
            Node(name=name, roles=("broadcastreduce",), num_cores=1, memory_bytes=128 * GIB)
            for name in ("n0", "n1")
        ),
        pod_memory_bytes={"broadcastreduce": 8 * GIB},
    )
    request = execute_request(8, 1)
    assert requirements_of(execute_submission(request), cluster).fan_out == 4
    request.debug_args.debug_usr.broadcastreduce_resource.memory_bytes = 80 * GIB
    wanted = requirements_of(execute_submission(request), cluster)
    assert wanted.fan_out == 16
    assert wanted.pods == (PodDemand(role="broadcastreduce", count=1, memory_bytes=80 * GIB),)
