"""What is done for a gang follows from what is seen of it, and from nothing else."""

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path

import kubernetes_validate
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.cluster.kubernetes import gangs, manifests
from appliance.cluster.kubernetes.gangs import Progress, Seen
from appliance.cluster.kubernetes.object_kinds import POD
from appliance.cluster.kubernetes.options import UserVolume
from appliance.core.ids import Role
from appliance.core.pods.end_cause import EndCause
from appliance.core.pods.pod_options import DriverPodOptions, PodOptions
from appliance.core.pods.pod_spec import PodSpec
from tests.support.kube_gangs import NOW, OWNER, gang_of, pod, record_of, seen
from tests.support.kube_jobs import make_gang, make_options

VERSIONS = ("1.28", "1.32", kubernetes_validate.utils.all_versions()[-1])
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


@pytest.fixture
def options(tmp_path):
    return make_options(tmp_path)


@pytest.fixture
def record(tmp_path, options):
    return record_of(tmp_path, make_gang(tmp_path), options)


def made_pod(spec, options):
    return manifests.pod(spec, OWNER, options, Path(options.data_volume.path) / "gangs")


def test_missing_pods_are_created_until_all_have_a_node(record, options):
    gang = gang_of(record)
    decision = gangs.decide(gang, seen(gang, chief_1=None, weight_0={"node": ""}), options)
    assert [each["metadata"]["name"] for each in decision.creates] == [f"{gang.job}-chief-1"]
    assert not decision.starts
    assert decision.look_again_seconds == options.placement_seconds


def test_pods_start_once_all_have_a_node(record, options):
    gang = gang_of(record)
    assert gangs.decide(gang, seen(gang), options).starts


@pytest.mark.parametrize("code", [0, 1])
def test_a_pod_that_ends_before_the_start_has_failed(record, options, code):
    gang = gang_of(record)
    there = seen(gang, chief_1={"phase": "Failed" if code else "Succeeded", "code": code})
    (end,) = gangs.decide(gang, there, options).exits
    assert end.exit_code != 0


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu"),
        ("UnexpectedAdmissionError", "Pod was rejected: Allocate failed, device not healthy"),
        ("NodeShutdown", "Pod was rejected as the node is shutting down."),
        ("Evicted", "The node had condition: [DiskPressure]."),
        ("NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed"),
    ],
)
def test_a_pod_that_its_node_refuses_is_made_again(record, options, reason, message):
    gang = gang_of(record)
    name = f"{gang.job}-chief-1"
    there = seen(gang, chief_1={"phase": "Failed", "reason": reason})
    there.pods[name]["status"]["message"] = message
    decision = gangs.decide(gang, there, options)
    words = f"1 of 4 pods wait; {name}: its node has refused it: {reason}: {message}"
    assert (decision.waits, decision.starts, decision.deletes) == (words, False, [])
    assert decision.look_again_seconds == 5.0
    after = replace(there, ending_seconds={f"u-{name}": 5.0})
    assert gangs.decide(gang, after, options).deletes == [(name, f"u-{name}", False)]
    late = NOW + dt.timedelta(seconds=options.placement_seconds + 1)
    (end,) = gangs.decide(gang, replace(after, now=late), options).exits
    assert (end.pod, end.cause) == (name, EndCause.UNPLACED)
    assert message in end.reason


def test_a_pod_that_its_node_refuses_after_the_start_has_ended(record, options):
    gang = gang_of(record, started=True)
    there = seen(gang, chief_1={"phase": "Failed", "reason": "OutOfcpu"})
    (end,) = gangs.decide(gang, there, options).exits
    assert end.pod == f"{gang.job}-chief-1"


@pytest.fixture
def gated(tmp_path, options):
    """A gang as it is on a server with gates: the second chief waits for the first of each role."""
    return gang_of(record_of(tmp_path, make_gang(tmp_path), options, has_gates=True))


def test_only_the_first_pod_of_each_role_looks_for_a_node_at_once(gated):
    gates = {
        name.removeprefix(f"{gated.job}-"): body["spec"].get("schedulingGates")
        for name, body in gated.manifests.items()
    }
    assert {name for name, gate in gates.items() if gate} == {"chief-1"}
    for version in VERSIONS:
        for body in gated.manifests.values():
            whole = {"apiVersion": "v1", "kind": "Pod", **body}
            kubernetes_validate.validate(whole, version, strict=True)


def test_the_others_look_for_one_when_these_have_found_one(gated, options):
    waiting = seen(gated, chief_1={"node": ""}, weight_0={"node": ""})
    decision = gangs.decide(gated, waiting, options)
    assert (decision.ungates, decision.starts) == ((), False)
    found = seen(gated, chief_1={"node": ""})
    decision = gangs.decide(gated, found, options)
    assert list(decision.ungates) == [(f"{gated.job}-chief-1", f"u-{gated.job}-chief-1", [])]
    for body in found.pods.values():
        body["spec"].pop("schedulingGates", None)
    assert not gangs.decide(gated, found, options).ungates


def test_gates_of_others_stay_and_are_told(gated, options):
    """Such as those that a webhook adds to every pod until somebody has approved it."""
    there = seen(gated, chief_0={"node": ""}, chief_1={"node": ""})
    theirs = {"name": "site.example/approval"}
    for name in ("chief-0", "chief-1"):
        spec = there.pods[f"{gated.job}-{name}"]["spec"]
        spec["schedulingGates"] = [*spec.get("schedulingGates", ()), theirs]
    decision = gangs.decide(gated, there, options)
    assert not decision.ungates, "the first chief has no node yet"
    waits = "chief-0: it waits for site.example/approval to take its scheduling gate away"
    assert waits in decision.waits
    there.pods[f"{gated.job}-chief-0"]["spec"]["nodeName"] = "node-1"
    (ungate,) = gangs.decide(gated, there, options).ungates
    assert ungate[2] == [theirs]
    there.pods[f"{gated.job}-chief-1"]["spec"]["schedulingGates"] = [theirs]
    decision = gangs.decide(gated, there, options)
    assert not decision.ungates
    assert waits.replace("chief-0", "chief-1") in decision.waits


def test_what_a_gang_waits_for_is_never_its_own_gate(gated, options):
    there = seen(gated, chief_0={"node": ""}, chief_1={"node": ""})
    for name, words in (("chief-0", "no node has accelerator"), ("chief-1", "non-empty gates")):
        condition = {"type": "PodScheduled", "status": "False", "message": words}
        there.pods[f"{gated.job}-{name}"]["status"]["conditions"] = [condition]
    assert "chief-0: no node has accelerator" in gangs.decide(gated, there, options).waits
    late = replace(there, now=NOW + dt.timedelta(seconds=options.placement_seconds + 1))
    (end,) = gangs.decide(gated, late, options).exits
    assert "no node has accelerator" in end.reason


def test_a_gate_that_was_just_taken_away_is_no_reason_to_wait(gated, options):
    """The scheduler's words stay for a moment."""
    there = seen(gated, chief_1={"node": ""})
    late = there.pods[f"{gated.job}-chief-1"]
    late["spec"].pop("schedulingGates")
    words = "Scheduling is blocked due to non-empty scheduling gates"
    late["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": words}
    ]
    assert gangs.decide(gated, there, options).waits == ""


def test_a_pod_on_its_way_out_has_no_node(record, options):
    gang = gang_of(record)
    decision = gangs.decide(gang, seen(gang, chief_0={"deleting": NOW}), options)
    assert not decision.starts
    assert decision.creates == []


def test_a_missing_pod_has_ended_once_the_gang_is_started(record, options):
    gang = gang_of(record, started=True)
    decision = gangs.decide(gang, seen(gang, chief_1=None), options)
    assert decision.creates == ()
    assert [(end.role, end.exit_code) for end in decision.exits] == [(Role.CHIEF, 137)]


def test_a_pod_without_a_container_ended_for_its_node_s_reason(record, options):
    gang = gang_of(record, started=True)
    (end,) = gangs.decide(
        gang, seen(gang, weight_0={"phase": "Failed", "reason": "Evicted"}), options
    ).exits
    assert end.reason == "exited with code 137 (killed by signal 9): Evicted"
    assert end.cause is EndCause.OVER_LIMIT
    assert not end.cause.is_disruption


def test_a_pod_that_others_take_away_has_ended_before_it_has(record, options):
    gang = gang_of(record, started=True)
    there = seen(gang, weight_0={"phase": "Running", "deleting": NOW})
    (end,) = gangs.decide(gang, there, options).exits
    assert (end.pod, end.exit_code) == (f"{gang.job}-weight-0", 143)
    assert end.cause is EndCause.DELETED
    assert "it was deleted, and not by the appliance" in end.reason


def test_what_a_container_printed_last_is_told_without_tokens(record, options):
    gang = gang_of(record, started=True)
    there = seen(gang, weight_0={"phase": "Failed", "code": 1})
    (container,) = there.pods[f"{gang.job}-weight-0"]["status"]["containerStatuses"]
    token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3Mi"
    lines = [
        *("  File x, line 3" for _ in range(60)),
        f"ValueError: no {token}" + " and so on" * 99,
    ]
    container["state"]["terminated"]["message"] = "\n".join([*lines, ""])
    (end,) = gangs.decide(gang, there, options).exits
    assert end.detail.startswith("ValueError: no [redacted] and so on")
    assert len(end.detail) < 260


def test_a_pod_that_does_not_start_in_time_fails_with_the_kubelet_s_reason(record, options):
    gang = gang_of(record, started=True)
    now = NOW + dt.timedelta(seconds=options.start_seconds + 1)
    there = seen(gang, now, **{each: {"phase": "Running"} for each in ("weight_0", "chief_0")})
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    name = f"{gang.job}-chief-1"
    there.pods[name]["status"]["containerStatuses"] = [{"state": {"waiting": waiting}}]
    ends = {end.pod: end for end in gangs.decide(gang, there, options).exits}
    assert "has not started within 300 seconds (ErrImagePull: no such image)" in ends[name].reason
    assert ends.pop(name).cause is EndCause.IMAGE
    assert {end.cause for end in ends.values()} == {EndCause.NOT_STARTED}


def test_a_stopping_gang_ends_its_pods_and_gives_up_on_a_lost_node(record, options):
    gang = gang_of(record, started=True, stop="true")
    there = seen(gang, chief_0={"deleting": NOW}, chief_1={"deleting": NOW})
    there = replace(there, ending_seconds={f"u-{gang.job}-chief-0": 61.0})
    decision = gangs.decide(gang, there, options)
    forced = {name: is_forced for name, _, is_forced in decision.deletes}
    assert forced == {
        f"{gang.job}-coordinator-0": False,
        f"{gang.job}-weight-0": False,
        f"{gang.job}-chief-0": True,
    }
    assert decision.look_again_seconds == 60.0
    assert not decision.is_stopped


@pytest.mark.parametrize("hours", [-24, -1, 1, 24])
@pytest.mark.parametrize(("seconds", "is_forced"), [(0, False), (89, False), (91, True)])
def test_a_lost_node_is_given_up_by_our_clock_and_not_by_the_server_s(
    record, options, hours, seconds, is_forced
):
    """A pod on a node that answers has a minute after its grace, however the clocks differ."""
    gang = gang_of(record, started=True, stop="true")
    deleting = {"deleting": NOW + dt.timedelta(hours=hours)}
    members = ("coordinator_0", "weight_0", "chief_0", "chief_1")
    there = seen(gang, **dict.fromkeys(members, deleting))
    for body in there.pods.values():
        body["metadata"]["deletionGracePeriodSeconds"] = 30
    ending = {body["metadata"]["uid"]: float(seconds) for body in there.pods.values()}
    decision = gangs.decide(gang, replace(there, ending_seconds=ending), options)
    assert [forced for _, _, forced in decision.deletes] == [True] * 4 * is_forced
    assert decision.look_again_seconds == (None if is_forced else 90.0 - seconds)


def test_a_gang_without_pods_has_stopped(record, options):
    gang = gang_of(record, stop="true")
    assert gangs.decide(gang, Seen(pods={}, now=NOW), options).is_stopped


@given(data=st.data())
def test_pods_start_only_together_and_are_created_only_before(record_of_law, data):
    record, options = record_of_law
    gang = gang_of(
        record,
        started=data.draw(st.booleans()),
        stop=data.draw(st.sampled_from(["", "true", "done"])),
    )
    pods = {}
    for name in gang.manifests:
        if data.draw(st.booleans()):
            pods[name] = pod(
                gang,
                name,
                phase=data.draw(st.sampled_from(PHASES)),
                node=data.draw(st.sampled_from(["", "node-1"])),
                code=data.draw(st.sampled_from([None, 0, 1])),
                deleting=data.draw(st.sampled_from([None, NOW])),
            )
    later = NOW + dt.timedelta(seconds=data.draw(st.floats(0, 1000)))
    decision = gangs.decide(gang, Seen(pods=pods, now=later), options)
    if decision.starts:
        assert gang.progress is Progress.PLACING
        assert pods.keys() == gang.manifests.keys()
        assert all(each["spec"]["nodeName"] for each in pods.values())
    if decision.creates:
        assert gang.progress is Progress.PLACING
        assert not {each["metadata"]["name"] for each in decision.creates} & pods.keys()
    if decision.deletes:
        assert gang.progress is Progress.STOPPING
    if decision.is_stopped:
        left = [each for each in pods.values() if not gangs.is_ended(each)]
        assert gang.progress is Progress.STOPPED or not left


@pytest.fixture(scope="module")
def record_of_law(tmp_path_factory):
    directory = tmp_path_factory.mktemp("law")
    options = make_options(directory)
    return record_of(directory, make_gang(directory), options), options


def test_a_driver_s_pod_may_ping_and_its_script_finds_the_image_s_client(tmp_path, options):
    (driver,) = make_gang(tmp_path, members=((Role.DRIVER, 0),))
    driver = replace(driver, options=DriverPodOptions(user_uid=1000))
    assert manifests.fitted(driver, options).options_of(DriverPodOptions).path == options.user_path
    body = made_pod(driver, options)
    ping = {"name": "net.ipv4.ping_group_range", "value": "0 2147483647"}
    assert body["spec"]["securityContext"]["sysctls"] == [ping]
    others = [made_pod(spec, options) for spec in make_gang(tmp_path)]
    assert not any("sysctls" in each["spec"]["securityContext"] for each in others)


def test_a_waiting_gang_says_which_pods_wait_and_what_the_scheduler_says(record, options):
    gang = gang_of(record)
    assert gangs.decide(gang, seen(gang, weight_0={"node": ""}), options).waits == ""
    there = seen(gang, weight_0={"node": ""}, chief_1={"node": ""})
    said = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
    condition = {"type": "PodScheduled", "status": "False", "message": said}
    there.pods[f"{gang.job}-chief-1"]["status"]["conditions"] = [condition]
    waits = gangs.decide(gang, there, options).waits
    assert waits == f"2 of 4 pods wait; {gang.job}-chief-1: {said}"


def test_a_started_gang_says_why_a_container_does_not_start(record, options):
    gang = gang_of(record, started=True)
    there = seen(gang, **{each: {"phase": "Running"} for each in ("weight_0", "chief_0")})
    name = f"{gang.job}-chief-1"
    waiting = {"reason": "ContainerCreating"}
    there.pods[name]["status"]["containerStatuses"] = [{"state": {"waiting": waiting}}]
    assert gangs.decide(gang, there, options).waits == ""
    waiting |= {"reason": "ImagePullBackOff", "message": "no such image"}
    waits = gangs.decide(gang, there, options).waits
    assert waits == f"2 of 4 pods wait; {name}: ImagePullBackOff: no such image"


def test_every_pod_asks_for_memory_and_disk_and_its_shared_memory_has_a_limit(tmp_path, options):
    chief = make_gang(tmp_path, members=((Role.CHIEF, 0),))[0]

    def made(**resources):
        body = made_pod(chief, replace(options, resources={Role.CHIEF: resources}))
        (shm,) = [each for each in body["spec"]["volumes"] if each["name"] == "shm"]
        return body["spec"]["containers"][0]["resources"], shm["emptyDir"]["sizeLimit"]

    by_itself = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "256Mi"}
    assert made() == ({"requests": by_itself, "limits": {}}, "32Gi")
    asked, limit = made(memory="8Gi", **{"nvidia.com/gpu": 1})
    assert asked["requests"] == {**by_itself, "memory": "8Gi", "nvidia.com/gpu": "1"}
    assert asked["limits"] == {"memory": "8Gi", "nvidia.com/gpu": "1"}
    assert limit == "8Gi"


def test_what_a_site_wants_of_every_pod_is_in_every_pod(tmp_path, options):
    options = replace(
        options,
        labels={"team": "a"},
        pod_annotations={"note": "b"},
        scheduler_name="volcano",
        priority_class="low",
        affinity={"podAntiAffinity": {}},
        extra_env=[{"name": "PROXY", "value": "none"}],
        extra_volumes=[{"name": "scratch", "emptyDir": {}}],
        extra_mounts=[{"name": "scratch", "mountPath": "/scratch"}],
    )
    for spec in make_gang(tmp_path):
        owner = {**OWNER, "apiVersion": "v1", "name": "owner"}
        body = {"apiVersion": "v1", "kind": "Pod", **manifests.pod(spec, owner, options, tmp_path)}
        for version in ("1.28", "1.32"):
            kubernetes_validate.validate(body, version, strict=True)
        assert body["metadata"]["labels"]["team"] == "a"
        assert body["metadata"]["annotations"] == {"note": "b"}
        wanted = {"schedulerName": "volcano", "priorityClassName": "low"}
        assert wanted.items() <= body["spec"].items()
        (container,) = body["spec"]["containers"]
        assert {"name": "PROXY", "value": "none"} in container["env"]
        assert {"name": "scratch", "mountPath": "/scratch"} in container["volumeMounts"]


def test_no_pod_of_a_job_changes_the_group_of_a_user_s_volume(tmp_path, options):
    for spec in make_gang(tmp_path):
        security = made_pod(spec, options)["spec"]["securityContext"]
        assert "fsGroup" not in security
        assert security["supplementalGroups"] == [options.group_id]


def test_a_pod_sees_its_own_job_s_directories_alone(tmp_path, options):
    spec = make_gang(tmp_path)[0]
    options_of = replace(spec.options, compile_root=tmp_path / "compile")
    body = made_pod(replace(spec, options=options_of), options)
    mounts = body["spec"]["containers"][0]["volumeMounts"]
    data = {each["subPath"]: each["mountPath"] for each in mounts if each["name"] == "data"}
    assert data == {
        f"gangs/{spec.job}/pods/coordinator-0": "/etc/wsc",
        f"jobs/{spec.job}": str(spec.work_dir),
        "compile": str(tmp_path / "compile"),
    }


def test_files_of_management_s_own_go_with_the_specs(tmp_path):
    plain, *others = make_gang(tmp_path)
    told = DriverPodOptions(client_config=Path("/data/config_v2"))
    driver = replace(plain, role=Role.DRIVER, options=told)
    assert manifests.files_of([driver, *others]) == {"client_config": Path("/data/config_v2")}
    files = manifests.files_by_member([driver, *others], {"client_config": b"{}"})
    assert files["driver-0"]["client_config"] == b"{}"
    told = PodSpec.from_json(files["driver-0"]["spec.json"].decode())
    assert told.options.client_config == Path("/etc/wsc/client_config")
    assert set(files["chief-0"]) == {"spec.json"}
    assert not hasattr(PodSpec.from_json(files["chief-0"]["spec.json"]).options, "client_config")


@pytest.mark.parametrize("version", kubernetes_validate.utils.all_versions()[-3:])
def test_every_object_is_right_for_recent_kubernetes(tmp_path, version):
    nfs = UserVolume(name="home", path=tmp_path, nfs_server="nfs", nfs_path="/x")
    claim = UserVolume(name="sets", path=tmp_path, claim="sets", is_read_only=True)
    options = make_options(
        tmp_path,
        user_volumes=(nfs, claim),
        pull_secrets=("registry",),
        node_selectors={Role.CHIEF: {"accelerator": "cs2"}},
        tolerations=({"operator": "Exists"},),
        runtime_class="gvisor",
    )
    owner = {"apiVersion": "wsc.open-appliance.org/v1", "kind": "WsJob", "name": "a", "uid": "u"}
    gang = make_gang(tmp_path, members=[(role, 0) for role in Role])
    made = manifests.gang(gang, owner, options, tmp_path / "gangs", launched_at=NOW)
    for body in made:
        full = {"apiVersion": POD.api_version, "kind": POD.name, **body}
        kubernetes_validate.validate(json.loads(json.dumps(full)), version, strict=True)


def test_nobody_runs_as_root(tmp_path, options):
    for uid in (None, 0):
        spec = replace(make_gang(tmp_path)[0], options=PodOptions(user_uid=uid, user_gid=0))
        security = made_pod(spec, options)["spec"]["securityContext"]
        assert security["runAsUser"] == options.default_uid
        assert security["runAsGroup"] == options.group_id
        assert security["runAsNonRoot"]


@pytest.mark.parametrize(
    ("changes", "memory"),
    [
        ({}, "3584Mi"),
        ({"plan_memory": False}, "512Mi"),
        ({"resources": {Role.CHIEF: {"memory": "8Gi"}}}, "8Gi"),
    ],
)
def test_a_pod_asks_for_what_its_plan_needs_unless_told_otherwise(tmp_path, changes, memory):
    (chief,) = make_gang(tmp_path, members=((Role.CHIEF, 0),))
    chief = replace(chief, options=replace(chief.options, planned_memory_bytes=(3 << 30) - 1))
    body = made_pod(chief, make_options(tmp_path, **changes))
    resources = body["spec"]["containers"][0]["resources"]
    assert resources["requests"]["memory"] == memory
    assert ("memory" in resources["limits"]) == ("resources" in changes)


def test_memory_of_the_resource_model_is_request_and_limit(tmp_path, options):
    spec = replace(make_gang(tmp_path)[1], options=PodOptions(pod_memory_bytes=123))
    (container,) = made_pod(spec, options)["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"memory": "123", "cpu": "100m", "ephemeral-storage": "256Mi"},
        "limits": {"memory": "123"},
    }


def test_a_device_is_request_and_limit(tmp_path):
    options = make_options(tmp_path, resources={Role.CHIEF: {"nvidia.com/gpu": "1"}})
    (spec,) = make_gang(tmp_path, members=[(Role.CHIEF, 0)])
    (container,) = made_pod(spec, options)["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert container["resources"]["requests"]["nvidia.com/gpu"] == "1"


@pytest.mark.parametrize("story", [("500m", 1), ("1", 1), ("3500m", 3), (4, 4)])
def test_a_pod_has_as_many_threads_as_it_asks_cores_for(tmp_path, story):
    cpu, threads = story
    options = make_options(tmp_path, resources={Role.WEIGHT: {"cpu": cpu}})
    spec = replace(make_gang(tmp_path)[1], options=PodOptions(torch_threads=64))
    assert manifests.fitted(spec, options).options.torch_threads == threads
