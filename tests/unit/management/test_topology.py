"""What is connected to what in a job."""

from dataclasses import replace

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import PodRecord
from appliance.core.cluster.requirements import Requirements
from appliance.core.cluster.systems import System
from appliance.core.ids import JobId, Role, pod_name
from appliance.management.cluster.cluster_topology import job_topology
from tests.unit.management.test_pod_specs import record

SYSTEMS = tuple(System(name=f"systemf{index}", block=f"leaf{index // 2}") for index in range(4))


def test_every_swarmx_pod_shows_what_it_sends_to_and_the_switches_below():
    job = replace(
        record(JobType.EXECUTE, num_systems=3, workers=1),
        systems=("systemf3", "systemf1", "systemf0"),
        requirements=Requirements(fan_out=2),
    )
    members = [
        (Role.WEIGHT, 0),
        (Role.BROADCASTREDUCE, 0),
        (Role.BROADCASTREDUCE, 1),
        (Role.CHIEF, 1),
    ]
    pods = [
        PodRecord(
            name=pod_name(JobId(job.id), role, index), job=job.id, role=role, index=index, node="n"
        )
        for role, index in members
    ]
    found = job_topology(job, pods, SYSTEMS).connections
    assert [(each.egress_targets, each.system_affinity_switch) for each in found] == [
        ("", ""),
        ("wsjob-a-broadcastreduce-1,systemf0", "leaf0,leaf1"),
        ("systemf3,systemf1", "leaf0,leaf1"),
        ("systemf1", "leaf0"),
    ]


def test_before_systems_are_granted_a_swarmx_pod_sends_to_nobody():
    job = record(JobType.EXECUTE, num_systems=3, workers=1)
    name = pod_name(JobId(job.id), Role.BROADCASTREDUCE, 0)
    pod = PodRecord(name=name, job=job.id, role=Role.BROADCASTREDUCE, index=0, node="")
    (only,) = job_topology(job, [pod], SYSTEMS).connections
    assert only.egress_targets == ""
