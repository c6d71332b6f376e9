"""What becomes of jobs when a node is drained under them, by `jobs.onDrain`.

kubectl drains for real. The server, 1.20, deletes a drained pod without a word; what newer ones say
of it, the condition `DisruptionTarget`, is written before.
"""

from concurrent.futures import Future

import pytest

from appliance.cluster.kubernetes.object_kinds import POD
from appliance.cluster.kubernetes.options import OnDrain
from appliance.cluster.kubernetes.pod_words import DELETED
from appliance.core.cluster.drivers import DISRUPTED_RESTART_EVENT, DISRUPTION_EVENT
from appliance.core.cluster.jobs import Phase
from appliance.management.reconciler.verdicts import HOW_TO_GO_ON
from tests.kubernetes.test_wsjobs import DRIVER, apply, status_of, wait_for_status
from tests.support.fake_nodes import NODE, FakeNodes
from tests.support.kube_harness import running_kube_harness
from tests.support.kube_jobs import make_options
from tests.support.management import new_job
from tests.support.waiting import wait_until

DRAINED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
UNPOLICED = {
    **DRIVER,
    "spec": {
        **DRIVER["spec"],
        "driver": {each: DRIVER["spec"]["driver"][each] for each in ("command", "workingDir")},
    },
}
"""A driver whose restart policy is none."""


@pytest.fixture
def admin(account):
    return account.admin


@pytest.fixture
def node(admin):
    """A node of this test's own: nobody deletes what others have left in their namespaces."""
    name = f"node-of-{admin.namespace}"
    admin.create(NODE, {"metadata": {"name": name}})
    yield name
    admin.delete(NODE, name)


@pytest.fixture
def nodes(admin, node):
    with FakeNodes(admin, addresses={node: "127.0.0.1"}) as nodes:
        yield nodes


@pytest.fixture
def drain(kube, account, node):
    """Return what drains the node, as docs/operations.md has it, and lets pods onto it again.

    It returns what is said of a drained pod: the reason, where the server writes it down.
    """

    def drain():
        kube.kubectl(
            *("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force"),
            "--timeout=120s",
            namespace=account.namespace,
        )
        kube.kubectl("uncordon", node, namespace=account.namespace)
        return "it was evicted, as by a drain of its node" if kube.minor >= 26 else DELETED

    return drain


@pytest.fixture
def on_drain():
    return OnDrain.REQUEUE


@pytest.fixture
def harness(api, tmp_path, nodes, on_drain):
    options = make_options(tmp_path, on_drain=on_drain)
    with running_kube_harness(tmp_path, api, options) as harness:
        yield harness


def wait_started(nodes, pod, *, times=1):
    wait_until(
        lambda: nodes.started.count(pod) == times,
        seconds=120,
        what=f"start {times} of {pod}",
        seen=lambda: str(nodes.started),
    )


def events_of(harness, job):
    return {event.reason: event.message for event in harness.jobs.events(job)}


@pytest.fixture
def run_driver(kube, account, admin, harness, nodes):
    """Return what starts a driver, and returns its job and its pod."""

    def run_driver(document):
        apply(kube, account, document)
        wait_for_status(admin, "my-run", phase="RUNNING")
        job = status_of(admin, "my-run")["job"]
        wait_started(nodes, f"{job}-driver-0")
        return job, f"{job}-driver-0"

    return run_driver


def test_a_driver_is_queued_again_whatever_its_policy_says(
    admin, harness, nodes, run_driver, drain
):
    job, pod = run_driver(UNPOLICED)
    admin.patch(POD, pod, {"status": {"conditions": [DRAINED]}}, subresource="status")
    drain()
    wait_started(nodes, pod, times=2)
    wait_for_status(admin, "my-run", phase="RUNNING")
    told = events_of(harness, job)
    assert "it was evicted, as by a drain of its node" in told[DISRUPTION_EVENT]
    assert told[DISRUPTED_RESTART_EVENT].startswith("the script is started again: ")
    nodes.end(pod, 0)
    wait_for_status(admin, "my-run", phase="SUCCEEDED")


def test_it_keeps_its_restarts_and_its_place(harness, nodes, run_driver, drain):
    job, pod = run_driver(DRIVER)
    created = harness.jobs.load(job).created_at
    for times in (2, 3, 4):  # its policy says twice
        drain()
        wait_started(nodes, pod, times=times)
    assert harness.jobs.load(job).created_at == created
    nodes.end(pod, 1)
    wait_started(nodes, pod, times=5)
    assert "started again, 1 of 2" in events_of(harness, job)["DriverRestarted"]


def test_a_job_whose_client_waits_for_it_is_queued_and_started_again(harness, nodes, drain):
    job = harness.submit(new_job("wsjob-a"))
    wait_started(nodes, "wsjob-a-chief-0")
    assert harness.jobs.load(job).phase is Phase.INITIALIZING
    words = drain()
    wait_started(nodes, "wsjob-a-chief-0", times=2)
    assert not harness.jobs.ingress(job).has_failed
    told = events_of(harness, job)
    assert words in told[DISRUPTION_EVENT]


def test_a_job_that_its_client_works_with_fails_and_says_why(admin, harness, nodes):
    job = harness.submit(new_job("wsjob-a"))
    wait_started(nodes, "wsjob-a-coordinator-0")
    listening = Future()
    harness.jobs.coordinator_registered(job, "localhost:1", listening)
    listening.result(120)
    wait_for_status(admin, job, phase="RUNNING")
    coordinator = "wsjob-a-coordinator-0"
    admin.patch(POD, coordinator, {"status": {"conditions": [DRAINED]}}, subresource="status")
    admin.delete(POD, coordinator)
    wait_for_status(admin, job, phase="FAILED")
    message = status_of(admin, job)["message"]
    assert f"[{coordinator}]: exited with code 143" in message
    assert "it was evicted, as by a drain of its node" in message
    assert message.endswith(HOW_TO_GO_ON.partition("; ")[2])  # the middle of a long one gives way


@pytest.mark.parametrize("on_drain", [OnDrain.FAIL, OnDrain.WAIT])
def test_otherwise_a_driver_follows_its_policy(admin, harness, nodes, run_driver, drain):
    job, pod = run_driver(UNPOLICED)
    words = drain()
    wait_for_status(admin, "my-run", phase="FAILED")
    assert words in status_of(admin, "my-run")["message"]
    assert nodes.started == [pod]
    assert DISRUPTION_EVENT not in events_of(harness, job)
