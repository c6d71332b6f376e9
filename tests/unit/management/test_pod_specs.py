"""Which pods a job consists of."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.cluster.node_cores import NodeCores
from appliance.coordinator.compile.artifacts import CompileCache
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import JobRecord, User
from appliance.core.cluster.requirements import PodDemand, Requirements
from appliance.core.cluster.systems import POD_KINDS
from appliance.core.ids import JobId, Role, WorkflowId, new_job_id
from appliance.core.pods.pod_options import Device
from appliance.management.access.driver_tokens import DriverTokens
from appliance.management.options.settings_by_group import RunOptions
from appliance.management.pods.pod_specs import KnownOptions, PodEnvironment, plan_pods
from tests.support.clock import FakeClock
from workers.csx.role import threads_of

RUNS = RunOptions(execution="auto", machine="CS-3", pace=2.5, streams="mapped")
POD_ENVIRONMENT = PodEnvironment(
    management_address="unix:/run/m.sock",
    compile_cache=CompileCache(root=Path("/data/compile")),
    machine_code=Path("/data/machine-code"),
    runs=RUNS,
    cluster_systems=4,
    bind_host="127.0.0.1",
    public_host="localhost",
    num_cores=8,
    driver_tokens=DriverTokens(b"key"),
)

SIXTEEN_AND_EIGHT = {"a": NodeCores(num_cores=16), "b": NodeCores(num_cores=8)}


def record(type_: JobType, *, num_systems: int = 0, workers: int = 0) -> JobRecord:
    return JobRecord(
        id=JobId("wsjob-a"),
        type=type_,
        session="job-operator",
        workflow=WorkflowId("wflow-1"),
        user=User(),
        num_systems=num_systems,
        workers_per_system=workers,
        work_dir="/data/jobs/wsjob-a",
        sequence=1,
        phase=Phase.SCHEDULED,
        message="",
        systems=(),
        service_address="",
        artifact_dir="",
        created_at=FakeClock().now(),
        started_at=None,
        ended_at=None,
    )


def test_a_compile_job_is_a_coordinator_alone():
    (pod,) = plan_pods(record(JobType.COMPILE), Path("/run/j"), POD_ENVIRONMENT)
    assert pod.role is Role.COORDINATOR
    assert pod.options.job_type == JobType.COMPILE
    assert pod.options.cluster_systems == 4
    assert pod.options.request_path == Path("/data/jobs/wsjob-a/request.bin")


@pytest.mark.parametrize("type_", [JobType.COMPILE, JobType.EXECUTE, JobType.SDK_COMPILE])
def test_pods_see_their_user_s_compile_cache_alone_where_it_is_split(type_: JobType) -> None:
    cache = CompileCache(root=Path("/data/compile"), is_split=True)
    environment = replace(POD_ENVIRONMENT, compile_cache=cache)
    seen = {}
    for uid in (1001, 1002, 0, -1):
        job = replace(record(type_, num_systems=1, workers=1), user=User(uid=uid))
        pods = plan_pods(job, Path("/run/j"), environment)
        (seen[uid],) = {
            each
            for pod in pods
            for each in pod.options.directories()
            if each != environment.machine_code
        }
        assert seen[uid] == cache.root_of(uid)
        tables = {getattr(pod.options, "kernel_tables", None) for pod in pods} - {None}
        assert tables <= {seen[uid] / ".kernels"}
    assert len(set(seen.values())) == len(seen)
    assert all(path.parent == Path("/data/compile/.users") for path in seen.values())


def test_an_execute_job_has_one_chief_for_each_system_and_all_its_workers():
    job = record(JobType.EXECUTE, num_systems=3, workers=2)
    pods = plan_pods(job, Path("/run/j"), POD_ENVIRONMENT)
    assert Counter(pod.role for pod in pods) == {
        Role.COORDINATOR: 1,
        Role.WEIGHT: 1,
        Role.BROADCASTREDUCE: 1,
        Role.CHIEF: 3,
        Role.ACTIVATION: 3,
        Role.WORKER: 6,
    }
    assert [pod.index for pod in pods if pod.role is Role.WORKER] == list(range(6))
    assert all(
        pod.options.num_systems == 3 for pod in pods if pod.role in (Role.COORDINATOR, Role.WORKER)
    )


def test_beyond_the_fan_out_swarmx_is_a_tree_of_pods_that_the_coordinator_knows():
    job = replace(
        record(JobType.EXECUTE, num_systems=5, workers=1), requirements=Requirements(fan_out=2)
    )
    pods = plan_pods(job, Path("/run/j"), POD_ENVIRONMENT)
    assert [pod.index for pod in pods if pod.role is Role.BROADCASTREDUCE] == [0, 1, 2, 3]
    assert pods[0].options.fan_out == 2
    (only,) = (
        pod
        for pod in plan_pods(replace(job, requirements=Requirements()), Path("/r"), POD_ENVIRONMENT)
        if pod.role is Role.BROADCASTREDUCE
    )
    assert only.index == 0


def test_weight_pods_share_cores_and_memory_of_their_node():
    requirements = Requirements(num_shards=3)
    job = replace(record(JobType.EXECUTE, num_systems=1, workers=1), requirements=requirements)
    around = replace(POD_ENVIRONMENT, node_cores=SIXTEEN_AND_EIGHT)
    nodes = {"weight-0": "a", "weight-1": "a", "weight-2": "b"}
    pods = plan_pods(job, Path("/r"), around, nodes)
    weights = [pod for pod in pods if pod.role is Role.WEIGHT]
    assert [pod.index for pod in weights] == [0, 1, 2]
    assert [pod.options.torch_threads for pod in weights] == [4, 4, 4]
    assert [pod.options.pods_here for pod in weights] == [2, 2, 1]
    assert pods[0].options.num_shards == 3


def test_a_chief_computes_on_all_cores_of_a_node_that_it_has_to_itself():
    job = record(JobType.EXECUTE, num_systems=3, workers=1)
    around = replace(POD_ENVIRONMENT, node_cores=SIXTEEN_AND_EIGHT)
    nodes = {"chief-0": "a", "chief-1": "b", "chief-2": "b"}
    chiefs = [pod for pod in plan_pods(job, Path("/r"), around, nodes) if pod.role is Role.CHIEF]
    assert [pod.options.torch_threads for pod in chiefs] == [16, 4, 4]


@pytest.mark.parametrize(
    ("visible", "machine_cores", "threads"),
    [(16, 16, 5), (2, 16, 2), (16, 2, 1)],
    ids=["all cores visible", "fewer visible to each", "more systems than cores"],
)
def test_systems_on_several_nodes_of_one_machine_share_its_cores(visible, machine_cores, threads):
    job = record(JobType.EXECUTE, num_systems=3, workers=1)
    cores = NodeCores(num_cores=visible, machine="m", machine_cores=machine_cores)
    around = replace(POD_ENVIRONMENT, node_cores=dict.fromkeys("abc", cores))
    nodes = {"chief-0": "a", "chief-1": "b", "chief-2": "c"}
    chiefs = [pod for pod in plan_pods(job, Path("/r"), around, nodes) if pod.role is Role.CHIEF]
    assert [pod.options.torch_threads for pod in chiefs] == [threads] * 3


def test_weight_pods_on_two_nodes_of_one_machine_share_half_of_its_cores():
    requirements = Requirements(num_shards=2)
    job = replace(record(JobType.EXECUTE, num_systems=1, workers=1), requirements=requirements)
    cores = NodeCores(num_cores=16, machine="m", machine_cores=16)
    around = replace(POD_ENVIRONMENT, node_cores={"a": cores, "b": cores})
    pods = plan_pods(job, Path("/r"), around, {"weight-0": "a", "weight-1": "b"})
    weights = [pod for pod in pods if pod.role is Role.WEIGHT]
    assert [pod.options.torch_threads for pod in weights] == [4, 4]
    assert [pod.options.pods_here for pod in weights] == [1, 1]


def test_the_longest_socket_path_fits_an_address():
    runtime_dir = Path("/" + "r" * 39) / new_job_id()
    longest = len(f"{runtime_dir}/broadcastreduce-100.sock")
    assert longest < 100


def test_pods_are_told_the_machine_and_pace_that_concern_them():
    job = record(JobType.EXECUTE, num_systems=2, workers=1)
    pods = plan_pods(job, Path("/run/j"), POD_ENVIRONMENT)
    told = {pod.role: pod.options for pod in pods}
    assert (told[Role.CHIEF].machine, told[Role.CHIEF].pace) == ("CS-3", 2.5)
    assert told[Role.COORDINATOR].machine == "CS-3"
    assert not hasattr(told[Role.WEIGHT], "machine")


@pytest.mark.parametrize("device", Device)
def test_systems_alone_are_told_what_to_compute_on(device) -> None:
    job = record(JobType.EXECUTE, num_systems=2, workers=1)
    pods = plan_pods(
        job, Path("/run/j"), replace(POD_ENVIRONMENT, runs=replace(RUNS, csx_device=device))
    )
    told = {pod.role: getattr(pod.options, "device", None) for pod in pods}
    assert told.pop(Role.CHIEF) is device
    assert set(told.values()) == {None}


def test_a_driver_is_one_pod_that_knows_its_script_and_its_token() -> None:
    (pod,) = plan_pods(
        record(JobType.DRIVER), Path("/run/wsjob-a"), POD_ENVIRONMENT, driver='{"argv": []}'
    )

    assert pod.role is Role.DRIVER
    assert pod.options.driver == '{"argv": []}'
    assert POD_ENVIRONMENT.driver_tokens.find(pod.options.token) == "wsjob-a"


def test_a_system_computes_with_its_share_of_its_own_node():
    job = record(JobType.EXECUTE, num_systems=3, workers=1)
    around = replace(POD_ENVIRONMENT, node_cores=SIXTEEN_AND_EIGHT)
    nodes = {"chief-0": "a", "chief-1": "a", "chief-2": "b"}
    chiefs = [p for p in plan_pods(job, Path("/r"), around, nodes) if p.role is Role.CHIEF]
    assert [threads_of(spec, num_systems=3) for spec in chiefs] == [8, 8, 8]


def kept(job, *, nodes=None, streams="ring"):
    runs = replace(RUNS, streams=streams, keep_weights_gib=0.5)
    pods = plan_pods(job, Path("/r"), replace(POD_ENVIRONMENT, runs=runs), nodes or {})
    roles = (Role.COORDINATOR, Role.CHIEF, Role.BROADCASTREDUCE)
    (found,) = {pod.options.keep_weight_bytes for pod in pods if pod.role in roles}
    return found


@pytest.mark.parametrize("streams", ["ring", "mapped"])
def test_systems_that_share_swarmx_memory_keep_no_weights(streams):
    job = record(JobType.EXECUTE, num_systems=2, workers=1)
    assert kept(job, streams=streams) == 0
    together = {name: "a" for name in ("chief-0", "chief-1", "broadcastreduce-0")}
    assert kept(job, nodes={**together, "weight-0": "b"}) == 0


def test_systems_keep_weights_as_soon_as_one_of_them_gets_them_over_the_network():
    job = record(JobType.EXECUTE, num_systems=2, workers=1)
    nodes = {"chief-0": "a", "chief-1": "b", "broadcastreduce-0": "a"}
    assert kept(job, nodes=nodes) == 1 << 29
    assert kept(job, streams="network") == 1 << 29


def test_a_compile_counts_kept_weights_where_its_job_may_be_on_several_nodes():
    assert kept(record(JobType.COMPILE)) == 0
    assert kept(record(JobType.COMPILE), nodes={"coordinator-0": "a"}) == 1 << 29


OTHERS = {
    "another user": {"user": User(uid=1001, gid=100, name="bob")},
    "another group": {"user": User(uid=1000, gid=101, name="ada")},
    "other memory": {
        "requirements": Requirements(
            pods=tuple(
                PodDemand(role=role, count=1, memory_bytes=7 << 30, num_cores=1)
                for role in POD_KINDS.values()
            ),
            planned_memory=((Role.WEIGHT, 5), (Role.CHIEF, 6)),
        )
    },
    "more systems": {"num_systems": 4},
    "other type": {"type": JobType.SDK_EXECUTE},
    "another job": {"id": JobId("wsjob-another"), "work_dir": "/data/jobs/wsjob-another"},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("more", [{}, {"trace": "00-1-2-01"}], ids=["", "traced"])
def test_options_of_earlier_jobs_are_only_those_of_alike_pods(changes, more):
    known, around = KnownOptions(), replace(POD_ENVIRONMENT, otlp="http://here", num_cores=16)
    first = record(JobType.EXECUTE, num_systems=2, workers=2)
    second = replace(first, **changes)
    plan_pods(first, Path("/r"), around, known=known)
    for job, traced in ((second, more), (first, {}), (first, more)):
        pods = plan_pods(job, Path("/r"), around, known=known, **traced)
        assert pods == plan_pods(job, Path("/r"), around, **traced)


def test_options_of_jobs_on_several_nodes_have_keys_of_their_own():
    known, runs = KnownOptions(), replace(POD_ENVIRONMENT.runs, streams="network")
    around = replace(POD_ENVIRONMENT, runs=runs, stream_secret=b"s" * 32)
    first = record(JobType.EXECUTE, num_systems=1, workers=1)
    plan_pods(first, Path("/r"), around, known=known)
    second = replace(first, id=JobId("wsjob-another"))
    assert plan_pods(second, Path("/r"), around, known=known) == plan_pods(
        second, Path("/r"), around
    )
