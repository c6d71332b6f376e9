"""Kueue queues jobs by their Workloads; Kueue is played, the API server and the appliance are real.

With a checkout of Kueue, `KUEUE=DIR`, the server holds Workloads to the schema that is published.
"""

import json
from concurrent.futures import Future

import pytest
import yaml

from appliance.cluster.kubernetes.object_kinds import POD, WSJOB
from appliance.core.cluster.jobs import Phase
from tests.kubernetes.test_wsjobs import (
    DRIVER,
    apply,
    conditions_of,
    status_of,
    suspend,
    wait_for,
    wait_for_status,
)
from tests.support.fake_kueue import FakeKueue, install_kueue, is_true, systems_of
from tests.support.fake_nodes import FakeNodes
from tests.support.kube_harness import running_kube_harness
from tests.support.kube_jobs import make_options
from tests.support.kube_server import chart_rules, make_account, new_namespace
from tests.support.management import new_job
from tests.support.waiting import wait_until

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


@pytest.fixture
def account(kube):
    """As the chart's account is where Kueue is used."""
    admin = kube.admin()
    install_kueue(admin)
    namespace = new_namespace(admin)
    rules = chart_rules("--set", "jobs.kueue.enabled=true")
    yield make_account(kube.admin(namespace), namespace, rules)
    admin._call("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def admin(account):
    return account.admin


@pytest.fixture
def nodes(admin):
    with FakeNodes(admin) as nodes:
        yield nodes


@pytest.fixture
def kueue(admin):
    with FakeKueue(admin, num_systems=2) as kueue:
        yield kueue


@pytest.fixture
def harness(api, tmp_path, nodes):
    options = make_options(tmp_path, kueue=True, kueue_queue="wafers")
    with running_kube_harness(tmp_path, api, options, num_systems=4) as harness:
        yield harness


def wait_finished(kueue, job, reason):
    def found():
        conditions = ((kueue.find(job) or {}).get("status") or {}).get("conditions") or ()
        return [each["reason"] for each in conditions if each["type"] == "Finished"]

    wait_until(lambda: found() == [reason], seconds=120, what="a finished Workload", seen=found)


def make_run(harness, job):
    """Let the coordinator of a job listen, as its pod would."""
    committed = Future()
    harness.jobs.coordinator_registered(job, "localhost:1", committed)
    committed.result(120)


def test_no_job_starts_before_its_workload_is_admitted(admin, harness, nodes, kueue):
    kueue.is_open = False
    job = harness.submit(new_job("wsjob-a", num_systems=2))
    wait_until(lambda: kueue.find(job), seconds=120, what="a Workload")
    workload = kueue.find(job)
    assert workload["spec"]["queueName"] == "wafers"
    assert systems_of(workload) == 2
    wait_until(
        lambda: status_of(admin, job).get("message") == "waits for Kueue queue wafers",
        seconds=120,
        what="the reason",
    )
    assert conditions_of(admin, job)["Suspended"] == ("True", "Held")
    assert (harness.jobs.load(job).held_by, nodes.bound) == ("Kueue", set())
    kueue.is_open = True
    wait_for_status(admin, job, phase="INITIALIZING")
    make_run(harness, job)
    wait_until(lambda: is_true(kueue.find(job), "PodsReady"), seconds=120, what="ready pods")
    harness.jobs.end(job, Phase.SUCCEEDED, "done")
    wait_finished(kueue, job, "Succeeded")


def test_a_job_beyond_the_quota_waits_with_kueues_reason(admin, harness, kueue):
    first = harness.submit(new_job("wsjob-first", num_systems=2))
    wait_for_status(admin, first, phase="INITIALIZING")
    second = harness.submit(new_job("wsjob-second", num_systems=1))
    said = "Kueue queue wafers: insufficient quota for wsc.open-appliance.org/systems"
    wait_for_status(admin, second, phase="QUEUED", message=said)  # though systems are free
    harness.jobs.cancel(first, "enough")
    wait_for_status(admin, second, phase="INITIALIZING")
    wait_finished(kueue, first, "Failed")


def test_a_preempted_run_is_stopped_gives_its_quota_back_and_starts_again(admin, harness, kueue):
    low = harness.submit(new_job("wsjob-low", num_systems=2))
    wait_for_status(admin, low, phase="INITIALIZING")
    make_run(harness, low)
    high = harness.submit(new_job("wsjob-high", num_systems=2, priority=100))
    wait_for_status(admin, low, phase="QUEUED")
    why = "Kueue queue wafers: Preempted to accommodate wsjob-high-kueue"
    assert f"held by Kueue ({why})" in harness.jobs.load(low).message
    wait_for_status(admin, high, phase="INITIALIZING")
    assert {event.reason for event in harness.jobs.events(low)} >= {"Held", "Preempted"}
    harness.jobs.cancel(high, "enough")
    wait_for_status(admin, low, phase="INITIALIZING")


def test_a_driver_goes_to_the_queue_that_its_label_names(kube, account, admin, harness, kueue):
    kueue.is_open = False
    labelled = {"name": "my-run", "labels": {QUEUE_LABEL: "team-a"}}
    apply(kube, account, {**DRIVER, "metadata": labelled})
    wait_until(lambda: status_of(admin, "my-run").get("job"), seconds=120, what="a job")
    job = status_of(admin, "my-run")["job"]
    wait_until(lambda: kueue.find(job), seconds=120, what="a Workload")
    assert kueue.find(job)["spec"]["queueName"] == "team-a"
    assert [each["name"] for each in kueue.find(job)["spec"]["podSets"]] == ["driver"]
    assert kueue.find(job)["metadata"]["ownerReferences"][0]["name"] == "my-run"
    kueue.is_open = True
    wait_for_status(admin, "my-run", phase="RUNNING")


def test_a_suspended_wsjob_gives_its_quota_back_and_is_admitted_anew(kube, account, harness, kueue):
    admin = account.admin
    apply(kube, account, DRIVER)
    wait_for_status(admin, "my-run", phase="RUNNING")
    job = status_of(admin, "my-run")["job"]
    suspend(kube, account, "my-run", value=True)
    wait_for(kube, account, "my-run", "Suspended")
    wait_until(
        lambda: not is_true(kueue.find(job), "QuotaReserved"),
        seconds=120,
        what="a Workload without quota",
        seen=lambda: json.dumps(kueue.find(job), indent=1),
    )
    assert not kueue.find(job)["spec"]["active"]
    kueue.is_open = False
    suspend(kube, account, "my-run", value=False)
    wait_until(lambda: kueue.find(job)["spec"]["active"], seconds=120, what="an active Workload")
    assert harness.jobs.load(job).phase is Phase.QUEUED
    assert not admin.list(POD)[0]
    kueue.is_open = True
    wait_for_status(admin, "my-run", phase="RUNNING")


def test_an_edited_priority_is_the_workloads_too(kube, account, admin, harness, kueue):
    kueue.is_open = False
    job = harness.submit(new_job("wsjob-a", priority=299))
    wait_until(lambda: kueue.find(job), seconds=120, what="a Workload")
    assert kueue.find(job)["spec"]["priority"] == 100
    kube.kubectl(
        *("patch", "wsjob", job, "--type=merge", "-p", '{"spec":{"priority":"P0"}}'),
        namespace=account.namespace,
    )
    wait_until(
        lambda: kueue.find(job)["spec"]["priority"] == 399 - harness.jobs.load(job).priority > 100,
        seconds=120,
        what="the new priority",
        seen=lambda: yaml.safe_dump(admin.find(WSJOB, job)),
    )


def test_jobs_that_kueue_holds_start_once_it_is_taken_out_of_the_settings(
    api, admin, tmp_path, nodes
):
    options = make_options(tmp_path, kueue=True, kueue_queue="wafers")
    with running_kube_harness(tmp_path, api, options) as harness:
        job = harness.submit(new_job("wsjob-a"))
        wait_for_status(admin, job, phase="QUEUED")
    with running_kube_harness(tmp_path, api, make_options(tmp_path)):
        wait_for_status(admin, job, phase="INITIALIZING")
