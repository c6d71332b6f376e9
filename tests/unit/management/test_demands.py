"""What a request will hold beyond its systems."""

import pytest

from appliance.core.requirements import GroupKind, PodDemand
from appliance.core.systems import ClusterDescription, NodeGroup, System
from appliance.management.demands import requirements_of
from appliance.wire.submissions import compile_submission, execute_submission
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
