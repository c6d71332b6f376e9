"""What kubectl does is what csctl does, and what csctl does shows in kubectl."""

import json
from concurrent.futures import Future

import pytest
import yaml

from appliance.cluster.kubernetes.api import ApiError
from appliance.cluster.kubernetes.hooks.uninstall import end_jobs
from appliance.cluster.kubernetes.object_kinds import EVENT, FINALIZER, WSCSYSTEM, WSJOB
from appliance.core.clock import SystemClock
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import User
from appliance.core.cluster.systems import SystemState
from appliance.core.queries.audit_trail import NO_UID, SOMEBODY, AuditFilter
from appliance.core.queries.job_filter import JobFilter
from appliance.management.jobs.job_edits import JobEdit
from appliance.management.kubernetes import wsjob_objects as objects
from tests.support.fake_nodes import FakeNodes
from tests.support.kube_harness import running_kube_harness
from tests.support.kube_jobs import make_options
from tests.support.management import new_job
from tests.support.waiting import wait_until

DRIVER = {
    "apiVersion": "wsc.open-appliance.org/v1",
    "kind": "WsJob",
    "metadata": {"name": "my-run"},
    "spec": {
        "user": {"uid": 1000, "gid": 100, "name": "ada"},
        "priority": "P1",
        "labels": {"example": "gpt"},
        "numSystems": 2,
        "driver": {
            "command": ["python", "train.py"],
            "workingDir": "/home/ada",
            "environment": {"TOKEN": "secret"},
            "restart": {"on": ["pod"], "limit": 2},
        },
    },
}


@pytest.fixture
def admin(account):
    return account.admin


@pytest.fixture
def nodes(admin):
    with FakeNodes(admin) as nodes:
        yield nodes


@pytest.fixture
def harness(api, tmp_path, nodes):
    with running_kube_harness(tmp_path, api, make_options(tmp_path)) as harness:
        yield harness


def apply(kube, account, document, *arguments):
    return kube.kubectl(
        "apply", "-f", "-", *arguments, namespace=account.namespace, given=yaml.safe_dump(document)
    )


def status_of(admin, name):
    return (admin.find(WSJOB, name) or {}).get("status") or {}


def wait_for_status(admin, name, **wanted):
    wait_until(
        lambda: wanted.items() <= status_of(admin, name).items(),
        seconds=120,
        what=f"{name} with {wanted}",
        seen=lambda: json.dumps(admin.find(WSJOB, name), indent=1),
    )


def wait_for_labels(admin, name, **wanted):
    """Wait until the object has these labels of its job, and no others."""
    prefix = "label.wsc.open-appliance.org/"

    def labels():
        found = admin.find(WSJOB, name)["metadata"]["labels"]
        return {k.removeprefix(prefix): v for k, v in found.items() if k.startswith(prefix)}

    wait_until(
        lambda: labels() == wanted,
        seconds=120,
        what=f"{name} with labels {wanted}",
        seen=lambda: json.dumps(admin.find(WSJOB, name), indent=1),
    )


def wait_gone(admin, name):
    wait_until(
        lambda: admin.find(WSJOB, name) is None,
        seconds=120,
        what=f"the end of {name}",
        seen=lambda: json.dumps(admin.find(WSJOB, name), indent=1),
    )


def test_a_job_of_a_client_goes_through_every_phase_in_kubectl(admin, harness, nodes):
    first = harness.submit(new_job("wsjob-first"))
    second = harness.submit(new_job("wsjob-second"))
    wait_for_status(admin, second, phase="QUEUED")
    wait_for_status(admin, first, phase="INITIALIZING", systemNames="systemf0,systemf1")
    wait_until(lambda: f"{first}-chief-0" in nodes.started, seconds=120, what="running pods")
    committed = Future()
    harness.jobs.coordinator_registered(first, "localhost:1", committed)
    committed.result(120)
    wait_for_status(admin, first, phase="RUNNING")
    harness.jobs.end(first, Phase.SUCCEEDED, "done")
    wait_for_status(admin, first, phase="SUCCEEDED", message="done")
    wait_for_status(admin, second, phase="INITIALIZING")
    nodes.end(f"{second}-chief-0", 1)
    wait_for_status(admin, second, phase="FAILED")
    assert "wsjob-second-chief-0]: exited with code 1" in status_of(admin, second)["message"]
    wait_until(
        lambda: not admin.find(WSJOB, first)["metadata"].get("finalizers"),
        seconds=120,
        what="a wsjob without finalizers",
    )


def test_kubectl_get_shows_the_columns_of_csctl(kube, account, admin, harness):
    job = harness.submit(new_job("wsjob-a", labels={"example": "gpt"}))
    wait_for_status(admin, job, phase="INITIALIZING")
    head, row = kube.kubectl("get", "wsjobs", namespace=account.namespace).splitlines()
    columns = "NAME SESSION TYPE PRIORITY AGE DURATION PHASE SYSTEMS USER LABELS"
    assert " ".join(head.split()) == columns
    assert row.split()[:5] == ["wsjob-a", "job-operator", "execute", "P2", "(299)"]
    assert row.split()[-4:] == ["INITIALIZING", "systemf0,systemf1", "ada", "example=gpt"]
    selector = "label.wsc.open-appliance.org/example=gpt"
    picked = kube.kubectl("get", "wsj", "-l", selector, "-o", "name", namespace=account.namespace)
    assert picked.strip() == "wsjob.wsc.open-appliance.org/wsjob-a"


def test_kubectl_apply_submits_a_driver(kube, account, admin, harness, nodes):
    apply(kube, account, DRIVER)
    wait_for_status(admin, "my-run", phase="RUNNING", user="ada", priority="P1 (199)")
    job = status_of(admin, "my-run")["job"]
    record = harness.jobs.load(job)
    assert (record.type, record.user.uid, record.priority) == (JobType.DRIVER, 1000, 199)
    assert record.labels == {"example": "gpt"}
    wait_until(lambda: f"{job}-driver-0" in nodes.started, seconds=120, what="a running driver")
    nodes.end(f"{job}-driver-0", 0)
    wait_for_status(admin, "my-run", phase="SUCCEEDED")
    kube.kubectl("delete", "wsjob", "my-run", namespace=account.namespace)
    assert harness.jobs.load(job).phase is Phase.SUCCEEDED
    (row,) = harness.access.audit(AuditFilter())
    assert (row.user, row.entry_point, row.action, row.name) == ("ada", "kubernetes", "submit", job)


def conditions_of(admin, name):
    found = status_of(admin, name).get("conditions") or ()
    return {each["type"]: (each["status"], each["reason"]) for each in found}


def wait_for(kube, account, name, condition):
    kube.kubectl(
        *("wait", f"--for=condition={condition}", f"wsjob/{name}", "--timeout=120s"),
        namespace=account.namespace,
    )


def test_kubectl_waits_for_conditions_and_describes_events(kube, account, admin, harness, nodes):
    apply(kube, account, DRIVER)
    wait_for(kube, account, "my-run", "Running")
    job = status_of(admin, "my-run")["job"]
    assert conditions_of(admin, "my-run")["Queued"] == ("False", "Running")
    wait_until(lambda: f"{job}-driver-0" in nodes.started, seconds=120, what="a running driver")
    nodes.end(f"{job}-driver-0", 0)
    wait_for(kube, account, "my-run", "Complete")
    done = conditions_of(admin, "my-run")
    assert [done[each][0] for each in ("Running", "Failed", "PodsPlaced")] == [
        "False",
        "False",
        "True",
    ]
    told = kube.kubectl("describe", "wsjob", "my-run", namespace=account.namespace)
    assert "Events:  " in told  # none: it went as it should
    assert kube.kubectl("explain", "wsjob.status.conditions", namespace=account.namespace)


def test_a_wsjob_goes_after_the_time_that_its_spec_says(kube, account, admin, harness):
    spec = {**DRIVER["spec"], "numSystems": 9, "ttlSecondsAfterFinished": 1}
    apply(kube, account, {**DRIVER, "spec": spec})
    wait_gone(admin, "my-run")


def test_pods_that_wait_say_why_in_the_wsjob_its_events_and_csctl(api, admin, tmp_path):
    options = make_options(tmp_path)
    with (
        FakeNodes(admin, capacity=1) as nodes,
        running_kube_harness(tmp_path, api, options) as harness,
    ):
        job = harness.submit(new_job("wsjob-a"))
        said = "nodes are available"
        wait_until(
            lambda: said in status_of(admin, job).get("message", ""),
            seconds=120,
            what="the scheduler's reason",
            seen=lambda: json.dumps(admin.find(WSJOB, job), indent=1),
        )
        assert conditions_of(admin, job)["PodsPlaced"] == ("False", "PodsWait")
        assert said in harness.jobs.ingress(job).message
        assert any(said in each.message for each in harness.jobs.events(job))
        told = [each for each in admin.list(EVENT)[0] if each["involvedObject"]["name"] == job]
        assert any(said in each["message"] for each in told)
        nodes.capacity = 9
        wait_until(
            lambda: not status_of(admin, job).get("message"),
            seconds=120,
            what="a wsjob without a reason",
            seen=lambda: json.dumps(admin.find(WSJOB, job), indent=1),
        )


def suspend(kube, account, name, *, value):
    change = json.dumps({"spec": {"suspend": value}})
    arguments = ("patch", "wsjob", name, "--type=merge", "-p", change)
    kube.kubectl(*arguments, namespace=account.namespace)


def test_a_wsjob_that_is_created_suspended_starts_when_it_is_resumed(
    kube, account, admin, harness, nodes
):
    apply(kube, account, {**DRIVER, "spec": {**DRIVER["spec"], "suspend": True}})
    wait_for(kube, account, "my-run", "Suspended")
    shown = status_of(admin, "my-run")
    assert (shown["phase"], nodes.bound) == ("QUEUED", set())
    assert harness.jobs.load(shown["job"]).held_by == "spec.suspend of its wsjob"
    suspend(kube, account, "my-run", value=False)
    wait_for_status(admin, "my-run", phase="RUNNING")
    assert conditions_of(admin, "my-run")["Suspended"] == ("False", "Running")


def test_a_run_that_is_suspended_goes_back_into_the_queue_and_starts_again(
    kube, account, admin, harness, nodes
):
    apply(kube, account, DRIVER)
    wait_for_status(admin, "my-run", phase="RUNNING")
    job = status_of(admin, "my-run")["job"]
    wait_until(lambda: len(nodes.started) == 1, seconds=120, what="a running driver")
    suspend(kube, account, "my-run", value=True)
    wait_for_status(admin, "my-run", phase="QUEUED")
    assert conditions_of(admin, "my-run")["Suspended"] == ("True", "Held")
    assert not nodes.pods()
    assert [event for event in harness.jobs.events(job) if "held by" in event.message]
    suspend(kube, account, "my-run", value=False)
    wait_for_status(admin, "my-run", phase="RUNNING")
    wait_until(lambda: len(nodes.started) == 2, seconds=120, what="the driver once more")
    nodes.end(f"{job}-driver-0", 0)
    wait_for_status(admin, "my-run", phase="SUCCEEDED")
    # Whoever may edit in the namespace may do it, so it is not said that ada did.
    rows = [(row.user, row.uid, row.detail) for row in harness.access.audit(AuditFilter())]
    somebody = [(SOMEBODY, NO_UID, detail) for detail in ("resume", "suspend")]
    assert rows == [*somebody, ("ada", 1000, "")]


def test_a_job_of_a_client_that_waits_is_suspended_too(kube, account, admin, harness):
    first, second = (harness.submit(new_job(f"wsjob-{name}")) for name in ("first", "second"))
    wait_for_status(admin, second, phase="QUEUED")
    suspend(kube, account, second, value=True)
    wait_for(kube, account, second, "Suspended")
    harness.jobs.cancel(first, "enough")
    wait_for_status(admin, first, phase="CANCELLED")
    assert harness.jobs.load(second).phase is Phase.QUEUED
    suspend(kube, account, second, value=False)
    wait_for_status(admin, second, phase="INITIALIZING")


def test_a_hold_of_an_administrator_outlasts_a_resumed_wsjob(kube, account, admin, harness):
    harness.submit(new_job("wsjob-first"))
    second = harness.submit(new_job("wsjob-second"))
    wait_for_status(admin, second, phase="QUEUED")
    harness.edits.hold(second, User(uid=0, gid=0, name="root"))
    for value in (True, False):
        suspend(kube, account, second, value=value)
    generation = admin.find(WSJOB, second)["metadata"]["generation"]
    wait_for_status(admin, second, observedGeneration=generation)
    assert harness.jobs.load(second).held_by == "root"


def test_a_wsjob_fails_at_its_deadline(kube, account, admin, harness):
    apply(kube, account, {**DRIVER, "spec": {**DRIVER["spec"], "activeDeadlineSeconds": 2}})
    wait_for_status(admin, "my-run", phase="FAILED")
    assert "it has run for 2 seconds" in status_of(admin, "my-run")["message"]
    assert conditions_of(admin, "my-run")["Failed"][0] == "True"


def test_kubectl_delete_cancels(kube, account, admin, harness):
    apply(kube, account, DRIVER)
    wait_for_status(admin, "my-run", phase="RUNNING")
    job = status_of(admin, "my-run")["job"]
    kube.kubectl("delete", "wsjob", "my-run", "--timeout=120s", namespace=account.namespace)
    record = harness.jobs.load(job)
    assert record.phase is Phase.CANCELLED
    assert "its wsjob was deleted from Kubernetes" in record.message


def test_kubectl_delete_cancels_a_job_of_a_client_too(kube, account, admin, harness):
    job = harness.submit(new_job("wsjob-a"))
    wait_for_status(admin, job, phase="INITIALIZING")
    kube.kubectl("delete", "wsjob", job, "--timeout=120s", namespace=account.namespace)
    assert harness.jobs.load(job).phase is Phase.CANCELLED


def test_what_csctl_does_shows_in_kubectl(admin, harness):
    job = harness.submit(new_job("wsjob-a", labels={"old": "1"}))
    wait_for_status(admin, job, phase="INITIALIZING")
    harness.jobs.patch_labels(job, {"new": "2", "old": None})
    harness.jobs.set_priority(job, "P0")
    harness.wsjobs.look_at(job)
    wait_for_status(admin, job, priority="P0 (99)", labels={"new": "2"}, labelText="new=2")
    # Labels are of the object, which is another call than that for its status.
    wait_for_labels(admin, job, new="2")
    harness.jobs.cancel(job, "by ada")
    wait_for_status(admin, job, phase="CANCELLED")


def test_an_edit_with_kubectl_changes_the_job_and_undoes_nothing(kube, account, admin, harness):
    apply(kube, account, DRIVER)
    wait_for_status(admin, "my-run", phase="RUNNING")
    job = status_of(admin, "my-run")["job"]
    harness.edits.edit(job, JobEdit(priority="P3"))
    edited = {**DRIVER, "spec": {**DRIVER["spec"], "labels": {"example": "llama"}}}
    apply(kube, account, edited)
    wait_for_status(admin, "my-run", labels={"example": "llama"}, priority="P3 (399)")
    edited["spec"] = {**edited["spec"], "priority": "205"}
    apply(kube, account, edited)
    wait_for_status(admin, "my-run", priority="P2 (205)")
    assert harness.jobs.load(job).labels == {"example": "llama"}


def test_a_change_of_what_was_submitted_is_left_alone_and_said(kube, account, admin, harness):
    """As on servers that know no rules in definitions; newer ones refuse it."""
    apply(kube, account, DRIVER)
    wait_for_status(admin, "my-run", phase="RUNNING")
    job = status_of(admin, "my-run")["job"]
    driver = {**DRIVER["spec"]["driver"], "command": ["python", "other.py"]}
    spec = {**DRIVER["spec"], "driver": driver, "labels": {"example": "llama"}}
    apply(kube, account, {**DRIVER, "spec": spec})
    wait_for_status(admin, "my-run", labels={"example": "llama"})
    told = [each for each in admin.list(EVENT)[0] if each["reason"] == "SpecChangeIgnored"]
    assert [each["type"] for each in told] == ["Warning"]
    assert told[0]["message"] == objects.FIXED_CHANGE
    assert harness.state.driver_specs.load(job).argv == ("python", "train.py")


@pytest.mark.parametrize(
    "change",
    [
        {"user": {"uid": 0, "name": "root"}},
        {"priority": "P7"},
        {"driver": {"command": [], "workingDir": "/"}},
        {"driver": {"command": ["x"], "workingDir": "relative"}},
        {"type": "pipeline"},
    ],
)
def test_the_schema_refuses_what_cannot_be(admin, change):
    spec = {name: value for name, value in {**DRIVER["spec"], **change}.items() if value}
    with pytest.raises(ApiError) as refused:
        admin.create(WSJOB, {"metadata": {"name": "wrong"}, "spec": spec})
    assert refused.value.status == 422


@pytest.mark.parametrize(
    "story",
    [
        ({"numSystems": 9}, "asks for 9 systems; the cluster has 2"),
        ({"session": "nobodys"}, "nobodys"),
        ({"type": "execute"}, "only a client makes compile and execute jobs"),
        ({"user": None}, "does not say whom it runs as"),
        ({"driver": None}, "does not say what it runs"),
        ({"priority": "P0"}, "may not use priority 99"),
    ],
)
def test_a_wsjob_that_is_refused_says_why_and_can_be_deleted(kube, account, harness, story):
    admin, (change, message) = account.admin, story
    spec = {name: value for name, value in {**DRIVER["spec"], **change}.items() if value}
    admin.create(WSJOB, {"metadata": {"name": "refused"}, "spec": spec})
    wait_for_status(admin, "refused", phase="FAILED")
    assert message in status_of(admin, "refused")["message"]
    kube.kubectl("delete", "wsjob", "refused", "--timeout=120s", namespace=account.namespace)
    assert harness.jobs.list(JobFilter(with_finished=True)) == []


def test_a_refused_wsjob_is_tried_again_after_an_edit(kube, account, admin, harness):
    wrong = {**DRIVER, "spec": {**DRIVER["spec"], "numSystems": 9}}
    apply(kube, account, wrong)
    wait_for_status(admin, "my-run", phase="FAILED")
    apply(kube, account, DRIVER)
    wait_for_status(admin, "my-run", phase="RUNNING")


def test_an_edited_status_is_set_right_again(kube, account, admin, harness):
    job = harness.submit(new_job("wsjob-a"))
    wait_for_status(admin, job, phase="INITIALIZING")
    admin.patch(WSJOB, job, {"status": {"phase": "SUCCEEDED"}}, subresource="status")
    admin.patch(WSJOB, job, {"metadata": {"finalizers": None}})
    wait_for_status(admin, job, phase="INITIALIZING")
    wait_until(
        lambda: FINALIZER in (admin.find(WSJOB, job)["metadata"].get("finalizers") or ()),
        seconds=120,
        what="the finalizer",
    )


def test_a_wsjob_of_a_job_that_nobody_knows_expires(api, admin, tmp_path):
    labels = {"wsc.open-appliance.org/job": "wsjob-lost"}
    metadata = {"name": "wsjob-lost", "labels": labels, "finalizers": [FINALIZER]}
    admin.create(WSJOB, {"metadata": metadata, "spec": {"type": "execute"}})
    with running_kube_harness(tmp_path, api, make_options(tmp_path, kept_seconds=1.0)):
        wait_gone(admin, "wsjob-lost")


def test_a_wsjob_of_an_unknown_job_can_be_deleted(admin, harness, kube, account):
    labels = {"wsc.open-appliance.org/job": "wsjob-lost"}
    metadata = {"name": "wsjob-lost", "labels": labels, "finalizers": [FINALIZER]}
    admin.create(WSJOB, {"metadata": metadata, "spec": {"type": "execute"}})
    wait_for_status(admin, "wsjob-lost", phase="FAILED")
    kube.kubectl("delete", "wsjob", "wsjob-lost", "--timeout=120s", namespace=account.namespace)


def test_a_wsjob_goes_some_time_after_its_job(api, admin, tmp_path, nodes):
    options = make_options(tmp_path, kept_seconds=1.0)
    with running_kube_harness(tmp_path, api, options) as harness:
        job = harness.submit(new_job("wsjob-a"))
        wait_for_status(admin, job, phase="INITIALIZING")
        harness.jobs.cancel(job, "by ada")
        wait_gone(admin, job)
        assert harness.jobs.load(job).phase is Phase.CANCELLED


@pytest.mark.usefixtures("nodes")
def test_what_happens_while_management_is_away_is_taken_in_later(kube, account, api, tmp_path):
    admin, options = account.admin, make_options(tmp_path)
    with running_kube_harness(tmp_path, api, options) as harness:
        job = harness.submit(new_job("wsjob-a"))
        wait_for_status(admin, job, phase="INITIALIZING")
    kube.kubectl("delete", "wsjob", job, "--wait=false", namespace=account.namespace)
    apply(kube, account, DRIVER)
    with running_kube_harness(tmp_path, api, options) as harness:
        wait_gone(admin, job)
        assert harness.jobs.load(job).phase is Phase.CANCELLED
        wait_for_status(admin, "my-run", phase="RUNNING")
        assert len(harness.jobs.list(JobFilter(with_finished=True))) == 2


def test_systems_show_who_uses_them_and_are_drained_with_kubectl(kube, account, admin, harness):
    job = harness.submit(new_job("wsjob-a", num_systems=1))

    def system(name):
        return (admin.find(WSCSYSTEM, name) or {}).get("status") or {}

    wait_until(lambda: system("systemf0").get("job") == job, seconds=120, what="a busy system")
    assert system("systemf1")["use"] == "Idle"
    patch = '{"spec": {"state": "drain", "notes": "fan"}}'
    kube.kubectl(
        "patch", "wscsystem", "systemf1", "--type=merge", "-p", patch, namespace=account.namespace
    )
    wait_until(
        lambda: (
            (system("systemf1").get("state"), system("systemf1").get("notes")) == ("drain", "fan")
        ),
        seconds=120,
        what="a drained system",
    )
    harness.systems.set_state("systemf1", SystemState.UP)
    wait_until(lambda: system("systemf1")["state"] == "up", seconds=120, what="a system that is up")
    listed = kube.kubectl("get", "wscsystems", namespace=account.namespace).splitlines()
    assert listed[0].split() == ["NAME", "STATE", "HEALTHY", "IN-USE", "JOB", "AGE"]


def test_uninstalling_ends_running_jobs_first(kube, account, api, harness):
    admin = account.admin
    apply(kube, account, DRIVER)
    job = harness.submit(new_job("wsjob-a"))
    wait_for_status(admin, job, phase="INITIALIZING")
    wait_for_status(admin, "my-run", phase="RUNNING")
    assert end_jobs([api], SystemClock(), patience_seconds=120) == 0
    assert harness.jobs.load(job).phase is Phase.CANCELLED
    assert not admin.list(WSJOB)[0]


def test_uninstalling_without_a_controller_leaves_no_finalizer(api, account, tmp_path):
    options = make_options(tmp_path)
    with running_kube_harness(tmp_path, api, options) as harness:
        job = harness.submit(new_job("wsjob-a"))
        wait_for_status(account.admin, job, phase="INITIALIZING")
    assert end_jobs([api], SystemClock(), patience_seconds=0.5) == 1
    wait_gone(account.admin, job)
