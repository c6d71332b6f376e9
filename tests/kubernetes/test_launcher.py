"""A gang runs as pods of a cluster: all or none, whoever is there to see to it."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from appliance.cluster.kubernetes.gang_records import GangRecords
from appliance.cluster.kubernetes.gangs import is_ended
from appliance.cluster.kubernetes.object_kinds import JOB_LABEL, POD, WSJOB, name_of
from appliance.cluster.launcher import PodsWait
from appliance.core.ids import JobId, Role
from appliance.core.pods.pod_spec import PodSpec
from tests.support.fake_nodes import FakeNodes
from tests.support.faulty_link import FaultyLink
from tests.support.kube_jobs import (
    make_gang,
    make_options,
    next_exit,
    running_launcher,
    wait_stopped,
)
from tests.support.waiting import wait_until


@pytest.fixture
def admin(account):
    return account.admin


@pytest.fixture
def options(tmp_path):
    return make_options(tmp_path)


@pytest.fixture
def gang(tmp_path):
    return make_gang(tmp_path)


def pods_of(admin, job):
    items, _ = admin.list(POD, f"{JOB_LABEL}={job}")
    return {name_of(pod): pod for pod in items}


def phases(admin, job):
    return [pod["status"]["phase"] for pod in pods_of(admin, job).values()]


def wait_running(admin, gang):
    wait_until(
        lambda: phases(admin, gang[0].job) == ["Running"] * len(gang),
        seconds=120,
        what="a running gang",
        seen=lambda: str(phases(admin, gang[0].job)),
    )


def wait_started(nodes, gang):
    names = sorted(spec.name for spec in gang)
    wait_until(
        lambda: sorted(nodes.started) == names,
        seconds=120,
        what="a gang that was let start",
        seen=lambda: str(nodes.started),
    )


@pytest.fixture
def records(tmp_path, account):
    """Where the records of gangs are."""
    return tmp_path / "gangs" / account.namespace


class Leftovers:
    """Tells what there is of a job beside pods that have ended."""

    def __init__(self, admin, records):
        self.admin, self.records = admin, records

    def __call__(self, job):
        running = [name for name, pod in pods_of(self.admin, job).items() if not is_ended(pod)]
        return [*running, *(path.name for path in self.records.glob(job))]


@pytest.fixture
def leftovers(admin, records):
    return Leftovers(admin, records)


def test_a_gang_runs_and_goes_without_a_trace(api, admin, options, gang, leftovers):
    job = gang[0].job
    with running_launcher(api, options) as launcher, FakeNodes(admin):
        assert set(launcher.launch(gang)) == {spec.name for spec in gang}
        wait_running(admin, gang)
        launcher.stop(job)
        assert wait_stopped(launcher, job) == []
        launcher.forget(job)
        assert leftovers(job) == []


def test_a_pod_is_where_the_api_server_says_as_long_as_it_runs(api, admin, options, gang):
    job, pod = gang[0].job, gang[0].name
    with running_launcher(api, options) as launcher:
        launcher.launch(gang)
        wait_until(lambda: pods_of(admin, job), seconds=120, what="pods")
        assert launcher.hosts_of(pod, job) == frozenset()
        with FakeNodes(admin, addresses={"one": "10.0.0.7"}) as nodes:
            wait_until(
                lambda: launcher.hosts_of(pod, job) == {"10.0.0.7"}, seconds=120, what="an address"
            )
            assert launcher.hosts_of(pod, JobId("wsjob-of-another")) == frozenset()
            nodes.end(pod, 1)
            wait_until(
                lambda: not launcher.hosts_of(pod, job), seconds=120, what="the end of a pod"
            )


def test_every_object_belongs_to_the_wsjob_and_has_no_rights(api, admin, options, gang):
    job = gang[0].job
    with running_launcher(api, options) as launcher, FakeNodes(admin):
        launcher.launch(gang)
        wait_running(admin, gang)
        uid = admin.find(WSJOB, job)["metadata"]["uid"]
        for pod in pods_of(admin, job).values():
            assert pod["metadata"]["ownerReferences"][0]["uid"] == uid
        for pod in pods_of(admin, job).values():
            spec = pod["spec"]
            assert spec["serviceAccountName"] == "default"
            assert spec["automountServiceAccountToken"] is False
            assert spec["securityContext"]["runAsUser"] == 1000
            assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            security = spec["containers"][0]["securityContext"]
            assert security["readOnlyRootFilesystem"]
            assert security["allowPrivilegeEscalation"] is False


def test_specs_are_in_no_object_and_each_pod_s_in_its_own_directory(
    api, admin, options, tmp_path, records
):
    first, *others = make_gang(tmp_path)
    keyed = replace(first, options=replace(first.options, stream_key="not-for-everybody"))
    with running_launcher(api, options) as launcher, FakeNodes(admin):
        launcher.launch((keyed, *others))
        wait_running(admin, (keyed, *others))
        assert "not-for-everybody" not in json.dumps(pods_of(admin, keyed.job))
        found = [
            path for path in records.rglob("*") if path.is_file() and "not-for" in path.read_text()
        ]
        (spec,) = found
        assert spec.parent.name == "coordinator-0"
        assert PodSpec.from_json(spec.read_text()) == keyed


def test_nothing_starts_until_all_pods_have_a_node(api, admin, options, gang):
    job = gang[0].job
    with running_launcher(api, options) as launcher, FakeNodes(admin, capacity=3) as nodes:
        launcher.launch(gang)
        wait_until(lambda: len(nodes.bound) == 3, seconds=120, what="three bound pods")
        assert nodes.started == []
        nodes.capacity = 4
        wait_started(nodes, gang)
        assert phases(admin, job) == ["Running"] * len(gang)


def test_containers_wait_for_all_pods_to_have_a_node(api, admin, options, gang):
    job = gang[0].job
    with running_launcher(api, options) as launcher, FakeNodes(admin, capacity=3) as nodes:
        launcher.launch(gang)
        wait_until(lambda: phases(admin, job).count("Running") == 3, seconds=120, what="containers")
        assert nodes.started == []
        nodes.capacity = 4
        wait_started(nodes, gang)


def test_a_gang_that_does_not_fit_fails_with_the_scheduler_s_reason(api, admin, tmp_path, gang):
    job = gang[0].job
    options = make_options(tmp_path, placement_seconds=2.0)
    with running_launcher(api, options) as launcher, FakeNodes(admin, capacity=3) as nodes:
        launcher.launch(gang)
        end = next_exit(launcher)
        assert "no node has taken it within 2 seconds (0/1 nodes are available" in end.reason
        assert "3 of the job's 4 pods had one, and none was started" in end.reason
        launcher.stop(job)
        wait_stopped(launcher, job)
        assert nodes.started == []
        assert pods_of(admin, job) == {}


@pytest.mark.parametrize(
    "story",
    [(1, "exited with code 1"), (137, "exited with code 137 (killed by signal 9): OOMKilled")],
)
def test_a_pod_that_fails_is_told_with_its_reason(api, admin, options, gang, story):
    exit_code, reason = story
    with running_launcher(api, options) as launcher, FakeNodes(admin) as nodes:
        launcher.launch(gang)
        wait_running(admin, gang)
        nodes.end(gang[1].name, exit_code)
        end = next_exit(launcher)
        assert (end.pod, end.role, end.reason) == (gang[1].name, Role.WEIGHT, reason)


def test_a_pod_that_somebody_deletes_is_told(api, admin, options, gang):
    with running_launcher(api, options) as launcher, FakeNodes(admin):
        launcher.launch(gang)
        wait_running(admin, gang)
        admin.delete(POD, gang[2].name)
        end = next_exit(launcher)
        assert end.pod == gang[2].name
        assert end.reason.endswith("it was deleted, and not by the appliance")


def test_a_pod_that_somebody_deletes_before_the_start_is_made_again(api, admin, options, gang):
    with running_launcher(api, options) as launcher, FakeNodes(admin, capacity=3) as nodes:
        launcher.launch(gang)
        wait_until(lambda: len(nodes.bound) == 3, seconds=120, what="three bound pods")
        admin.delete(POD, next(iter(nodes.bound)))
        nodes.capacity = 4
        wait_running(admin, gang)
        told = [launcher.exits.get() for _ in range(launcher.exits.qsize())]
        assert all(isinstance(each, PodsWait) for each in told), told


def test_a_pod_that_its_node_refuses_is_made_again(api, admin, options, gang):
    name = gang[0].name
    status = {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: no cpu"}
    with running_launcher(api, options) as launcher:
        launcher.launch(gang)
        wait_until(lambda: admin.find(POD, name), seconds=120, what="the pod")
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
        body = {"metadata": {"name": name}, "target": target}
        admin._call("POST", POD.path(admin.namespace, name, "binding"), body=body)
        admin.patch(POD, name, {"status": status}, subresource="status")
        while "its node has refused it: OutOfcpu" not in launcher.exits.get(timeout=120).reason:
            pass
        with FakeNodes(admin) as nodes:
            wait_started(nodes, gang)


def test_a_pod_that_loses_its_label_does_not_outlive_its_job(api, admin, options, gang):
    job = gang[0].job
    with running_launcher(api, options) as launcher, FakeNodes(admin):
        launcher.launch(gang)
        wait_running(admin, gang)
        admin.patch(POD, gang[3].name, {"metadata": {"labels": {JOB_LABEL: None}}})
        assert next_exit(launcher).pod == gang[3].name
        launcher.stop(job)
        wait_stopped(launcher, job)
        wait_until(lambda: admin.find(POD, gang[3].name) is None, seconds=120, what="the pod's end")


@pytest.mark.parametrize("harm", ["deleted", "damaged"])
def test_a_gang_whose_record_is_harmed_fails_and_goes(api, options, gang, harm, leftovers):
    job, admin, records = gang[0].job, leftovers.admin, leftovers.records
    with FakeNodes(admin):
        with running_launcher(api, options) as launcher:
            launcher.launch(gang)
            wait_running(admin, gang)
        if harm == "deleted":
            shutil.rmtree(records / job)
        else:
            (records / job / "gang.json").write_text("nonsense")
        with running_launcher(api, options) as launcher:
            (end,) = launcher.survivors()[job].exits
            assert "the record of its gang was deleted or damaged" in end.reason
            launcher.stop(job)
            wait_stopped(launcher, job)
            launcher.forget(job)
        assert leftovers(job) == []


def test_the_next_launcher_goes_on_with_a_running_gang(api, admin, options, gang):
    job = gang[0].job
    with FakeNodes(admin) as nodes:
        with running_launcher(api, options) as launcher:
            launcher.launch(gang)
            wait_running(admin, gang)
        nodes.end(gang[1].name, 3)
        wait_until(lambda: "Failed" in phases(admin, job), seconds=120, what="a failed pod")
        with running_launcher(api, options) as launcher:
            survivor = launcher.survivors()[job]
            assert set(survivor.pids) == {spec.name for spec in gang}
            assert [(end.pod, end.exit_code) for end in survivor.exits] == [(gang[1].name, 3)]
            assert not survivor.is_stopped
            launcher.stop(job)
            assert wait_stopped(launcher, job) == []
        with running_launcher(api, options) as launcher:
            assert launcher.survivors()[job].is_stopped
            launcher.forget(job)
        with running_launcher(api, options) as launcher:
            assert launcher.survivors() == {}


def test_the_next_launcher_places_what_the_last_one_had_only_written_down(
    api, admin, options, gang
):
    with FakeNodes(admin) as nodes:
        with running_launcher(api, options) as launcher:
            launcher._work.close()  # it is killed right after `launch`
            launcher._thread.join()
            launcher.launch(gang)
        assert nodes.bound == set()
        with running_launcher(api, options):
            wait_running(admin, gang)


class Killed(BaseException):
    """What ends a launch half way, as SIGKILL does."""


@pytest.mark.parametrize("step", ["_make", "_put"])
def test_a_launch_that_was_cut_off_is_made_again(api, admin, options, gang, step):
    with running_launcher(api, options) as launcher, pytest.MonkeyPatch.context() as patch:
        patch.setattr(GangRecords, step, cut_off)
        with pytest.raises(Killed):
            launcher.launch(gang)
    with running_launcher(api, options) as launcher, FakeNodes(admin):
        assert launcher.survivors() == {}
        launcher.launch(gang)
        wait_running(admin, gang)


def cut_off(*_args, **_kwargs):
    raise Killed


def test_a_job_is_launched_again_after_it_was_preempted(api, admin, options, gang, leftovers):
    job = gang[0].job
    with running_launcher(api, options) as launcher, FakeNodes(admin):
        for _ in range(3):
            launcher.launch(gang)
            wait_running(admin, gang)
            launcher.stop(job)
            assert wait_stopped(launcher, job) == []
            launcher.forget(job)
        assert leftovers(job) == []


def test_a_job_is_launched_again_after_its_pods_have_ended(api, admin, options, gang):
    """Those of the first launch stay for their logs, and then make room."""
    job, driver = gang[0].job, gang[:1]
    with running_launcher(api, options) as launcher, FakeNodes(admin) as nodes:
        uids = set()
        for code in (1, 0):
            launcher.launch(driver)
            wait_until(
                lambda: nodes.started.count(driver[0].name) == len(uids) + 1,
                seconds=120,
                what="a pod that runs",
            )
            nodes.end(driver[0].name, code)
            assert next_exit(launcher).exit_code == code
            launcher.stop(job)
            assert wait_stopped(launcher, job) == []
            launcher.forget(job)
            (pod,) = pods_of(admin, job).values()
            assert is_ended(pod)
            uids.add(pod["metadata"]["uid"])
        assert len(uids) == 2


def test_a_job_that_is_stopped_at_once_leaves_nothing(api, admin, options, tmp_path, leftovers):
    with running_launcher(api, options) as launcher, FakeNodes(admin):
        jobs = []
        for _ in range(5):
            gang = make_gang(tmp_path)
            jobs.append(gang[0].job)
            launcher.launch(gang)
            launcher.stop(gang[0].job)
        stopped = {next_exit(launcher).job for _ in jobs}
        assert stopped == set(jobs)
        for job in jobs:
            launcher.forget(job)
        wait_until(
            lambda: not any(leftovers(job) for job in jobs),
            seconds=120,
            what="an empty namespace",
            seen=lambda: str([leftovers(job) for job in jobs]),
        )


def test_stopping_a_job_that_was_never_launched_is_told_too(api, options, gang):
    with running_launcher(api, options) as launcher:
        launcher.stop(gang[0].job)
        assert wait_stopped(launcher, gang[0].job) == []


def test_a_job_that_is_launched_while_the_api_server_is_away_waits_for_it(
    kube, account, admin, options, gang
):
    """Its launch has no end before, and it says why it waits."""
    with FaultyLink(kube.address) as link:
        mine = kube.as_account(account.namespace, account.token, address=link.address)
        with running_launcher(mine, options) as launcher, FakeNodes(admin) as nodes:
            link.take_down()
            with ThreadPoolExecutor(1) as threads:
                launched = threads.submit(launcher.launch, gang)
                wait = launcher.exits.get(timeout=120)
                assert isinstance(wait, PodsWait)
                assert "the Kubernetes API does not answer" in wait.reason
                assert not launched.done()
                link.bring_up()
                assert set(launched.result(120)) == {spec.name for spec in gang}
            wait_started(nodes, gang)
            assert launcher.exits.get(timeout=120) == PodsWait(job=gang[0].job, reason="")
