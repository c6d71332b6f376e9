"""Sessions with a namespace of their own: what runs there, who may do what there, what is refused.

The chart is installed by a real helm on a real API server, and management acts by the account and
the roles that it makes; nodes are played.
"""

import json
import os
import secrets
import subprocess
import threading

import pytest
import yaml

from appliance.cluster.kubernetes.object_kinds import (
    CONFIG_MAP,
    EVENT,
    FINALIZER,
    JOB_LABEL,
    POD,
    SECRET,
    WSJOB,
    Kind,
    name_of,
)
from appliance.cluster.kubernetes.options import SessionNamespace
from appliance.core.clock import SystemClock
from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.sessions import SessionSpec
from appliance.core.errors import UserError
from appliance.management.kubernetes import unmapped_wsjobs
from appliance.management.kubernetes.unmapped_wsjobs import UnmappedWsJobs
from tests.kubernetes.test_helm import NAME, RELEASE, VALUES, PlayedManagement, play_hook
from tests.kubernetes.test_wsjobs import DRIVER, status_of, wait_for_status, wait_gone
from tests.support.fake_kueue import FakeKueue, install_kueue
from tests.support.fake_nodes import FakeNodes
from tests.support.kube_harness import running_kube_harness
from tests.support.kube_jobs import make_options
from tests.support.kube_server import (
    CHART,
    account_token,
    chart_rules,
    find_tool,
    make_account,
    new_namespace,
)
from tests.support.management import new_job
from tests.support.waiting import wait_until

QUOTA = Kind(group="", version="v1", plural="resourcequotas", name="ResourceQuota")
RBAC = "rbac.authorization.k8s.io"
ROLE = Kind(group=RBAC, version="v1", plural="roles", name="Role")
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.fixture
def namespaces(kube):
    """The namespaces of the release, of session research and of nobody."""
    admin = kube.admin()
    names = [new_namespace(admin) for _ in range(3)]
    yield names
    for name in names:
        admin._call("DELETE", f"/api/v1/namespaces/{name}", missing=True)


@pytest.fixture
def own(kube, namespaces):
    return kube.admin(namespaces[0])


@pytest.fixture
def team(kube, namespaces):
    return kube.admin(namespaces[1])


@pytest.fixture
def helm(kube, own, tmp_path):
    """Return a function that runs helm in the release's namespace, whatever becomes of it."""

    def run(*arguments, given=()):
        sets = [part for value in (*VALUES, *given) for part in ("--set", value)]
        return subprocess.run(
            [
                *(find_tool("helm"), *arguments),
                *("--kubeconfig", str(kube.kubeconfig), "--namespace", own.namespace),
                *(sets if arguments[0] in ("install", "upgrade") else ()),
            ],
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


@pytest.fixture
def api(kube, own, team, helm):
    """The cluster as management sees it once the chart has mapped session research."""
    value = f"sessions.research.namespace={team.namespace}"
    done = helm("install", RELEASE, str(CHART), given=(value,))
    assert done.returncode == 0, done.stderr
    yield kube.as_account(own.namespace, account_token(own, NAME))
    for kind in ("clusterrole", "clusterrolebinding"):
        name = f"{own.namespace}.{NAME}-unmapped"
        kube.kubectl("delete", kind, name, "--ignore-not-found", namespace=own.namespace)


@pytest.fixture
def options(tmp_path, team):
    return make_options(tmp_path, sessions={"research": SessionNamespace(namespace=team.namespace)})


@pytest.fixture
def harness(tmp_path, api, options):
    with running_kube_harness(tmp_path, api, options) as harness:
        yield harness


def apply(kube, namespace, **spec):
    document = {**DRIVER, "spec": {**DRIVER["spec"], **spec}}
    kube.kubectl("apply", "-f", "-", namespace=namespace, given=yaml.safe_dump(document))


def of_jobs(admin):
    """Return the kinds of objects of jobs that a namespace has."""
    kinds = (WSJOB, POD, SECRET, CONFIG_MAP)
    return {kind.plural for kind in kinds if admin.list(kind, JOB_LABEL)[0]}


def test_all_of_a_job_of_a_mapped_session_is_in_its_namespace(harness, own, team):
    with FakeNodes(team) as nodes:
        job = harness.submit(new_job("wsjob-a", session="research"))
        wait_until(lambda: len(nodes.started) == 2, seconds=120, what="running pods")
        assert of_jobs(team) == {"wsjobs", "pods"}
        assert of_jobs(own) == set()
        assert harness.wsjobs.namespace_of(harness.jobs.load(job)) == team.namespace
        harness.jobs.end(job, Phase.SUCCEEDED, "done")
        wait_for_status(team, job, phase="SUCCEEDED", session="research")
        wait_until(lambda: of_jobs(team) == {"wsjobs"}, seconds=120, what="the end of all else")
    assert harness.sessions.load("research").spec.properties == {"namespace": team.namespace}


def test_jobs_of_other_sessions_stay_in_the_release_s_namespace(harness, own, team):
    with FakeNodes(own) as nodes:
        job = harness.submit(new_job("wsjob-a"))
        wait_until(lambda: len(nodes.started) == 2, seconds=120, what="running pods")
        assert of_jobs(team) == set()
        assert harness.wsjobs.namespace_of(harness.jobs.load(job)) == own.namespace


def test_a_job_that_runs_when_its_session_gets_a_namespace_ends_where_it_began(
    api, own, team, options, tmp_path
):
    with FakeNodes(own) as nodes:
        with running_kube_harness(tmp_path, api, make_options(tmp_path)) as before:
            before.sessions.create("research", SessionSpec())
            job = before.submit(new_job("wsjob-a", session="research"))
            wait_until(lambda: len(nodes.started) == 2, seconds=120, what="running pods")
            wait_for_status(own, job, phase="INITIALIZING")
        with running_kube_harness(tmp_path, api, options) as after:
            assert after.wsjobs.namespace_of(after.jobs.load(job)) == own.namespace
            after.jobs.end(job, Phase.SUCCEEDED, "done")
            wait_for_status(own, job, phase="SUCCEEDED")
            wait_until(lambda: of_jobs(own) == {"wsjobs"}, seconds=120, what="the end of its pods")
            own.delete(WSJOB, job)
            wait_until(
                lambda: after.wsjobs.namespace_of(after.jobs.load(job)) == "",
                seconds=120,
                what="a job that is in no namespace any more",
            )
    assert of_jobs(team) == set()


def test_a_wsjob_belongs_to_the_session_of_its_namespace(kube, harness, team):
    with FakeNodes(team) as nodes:
        apply(kube, team.namespace)
        wait_for_status(team, "my-run", session="research")
        wait_until(lambda: nodes.started, seconds=120, what="the driver's pod")
        kube.kubectl("delete", "wsjob", "my-run", "--wait=false", namespace=team.namespace)
        wait_gone(team, "my-run")


def test_a_wsjob_that_names_the_session_of_another_namespace_is_refused(kube, harness, own, team):
    apply(kube, own.namespace, session="research")
    wait_for_status(own, "my-run", phase="FAILED")
    assert f"whose jobs are in namespace {team.namespace}" in status_of(own, "my-run")["message"]
    apply(kube, team.namespace, session="job-operator")
    wait_for_status(team, "my-run", phase="FAILED")
    assert f"whose jobs are in namespace {own.namespace}" in status_of(team, "my-run")["message"]


def test_a_wsjob_in_a_namespace_of_nobody_is_told_so_once(kube, api, harness, options, namespaces):
    elsewhere = kube.admin(namespaces[2])
    apply(kube, elsewhere.namespace)
    for _ in range(2):  # a later management says it no second time
        unmapped = UnmappedWsJobs(api, options, SystemClock(), grace_seconds=0.1)
        unmapped.start()
        wait_until(lambda: elsewhere.list(EVENT)[0], seconds=60, what="an event")
        unmapped.close()
    (event,) = elsewhere.list(EVENT)[0]
    assert event["reason"] == unmapped_wsjobs.REASON
    assert event["involvedObject"]["name"] == "my-run"
    assert f"{namespaces[1]} (session research)" in event["message"]
    assert not status_of(elsewhere, "my-run")


def may(api, namespace, verb, resource):
    group, _, plural = resource.rpartition("/")
    asked = {"namespace": namespace, "verb": verb, "group": group, "resource": plural}
    body = {"spec": {"resourceAttributes": asked}}
    return api._call("POST", REVIEW, body=body)["status"]["allowed"]


def test_management_has_its_rights_in_the_mapped_namespace_and_in_no_other(api, namespaces):
    own, team, elsewhere = namespaces
    needed = [
        *(("create", "pods"), ("delete", "pods"), ("watch", "pods")),
        *(("list", "configmaps"), ("delete", "configmaps"), ("create", "events")),
        ("watch", "wsc.open-appliance.org/wsjobs"),
    ]
    for verb, resource in needed:
        assert may(api, own, verb, resource), resource
        assert may(api, team, verb, resource), resource
    allowed = {(verb, resource) for verb, resource in needed if may(api, elsewhere, verb, resource)}
    assert allowed == {("create", "events"), ("watch", "wsc.open-appliance.org/wsjobs")}
    for namespace in (*namespaces, ""):
        for verb in ("get", "create", "delete"):
            assert not may(api, namespace, verb, "secrets")
    assert not may(api, "", "list", "pods")
    assert may(api, own, "update", "coordination.k8s.io/leases")
    assert not may(api, team, "update", "coordination.k8s.io/leases")
    assert not may(api, team, "list", "wsc.open-appliance.org/wscsystems")


def set_quota(admin, pods):
    """Do what an administrator and the quota controller do; nothing is used yet."""
    hard = {"pods": str(pods)}
    body = {"metadata": {"name": "team"}, "spec": {"hard": hard}}
    if admin.find(QUOTA, "team") is None:
        admin.create(QUOTA, body)
    admin.patch(QUOTA, "team", {"spec": {"hard": hard}})
    used = (admin.find(QUOTA, "team").get("status") or {}).get("used") or {"pods": "0"}
    admin.patch(QUOTA, "team", {"status": {"hard": hard, "used": used}}, subresource="status")


def says_what_the_quota_refuses(message):
    """Until a node takes the admitted pod, the same message counts two waiting pods."""
    one_waits = message.startswith("1 of 2 pods wait; wsjob-a-")
    return one_waits and "exceeded quota: team" in message


def test_what_a_quota_refuses_is_the_job_s_message_until_there_is_room(harness, team):
    set_quota(team, 1)
    with FakeNodes(team) as nodes:
        job = harness.submit(new_job("wsjob-a", session="research"))
        wait_until(
            lambda: says_what_the_quota_refuses(status_of(team, job).get("message", "")),
            seconds=120,
            what="the quota's words, with one pod placed",
            seen=lambda: json.dumps(status_of(team, job)),
        )
        assert not nodes.started[2:]
        set_quota(team, 2)
        wait_until(lambda: len(nodes.started) == 2, seconds=120, what="both pods")


def test_a_namespace_stays_while_jobs_run_there(harness, own, team, helm):
    chart, other = str(CHART), "sessions.research.namespace=elsewhere"
    with FakeNodes(team) as nodes:
        job = harness.submit(new_job("wsjob-a", session="research"))
        wait_until(lambda: len(nodes.started) == 2, seconds=120, what="running pods")
        for given in ((), (other,)):
            refused = helm("upgrade", RELEASE, chart, given=given)
            assert refused.returncode != 0
            words = f"session research cannot leave namespace {team.namespace}: 1 of its jobs"
            assert words in refused.stderr
        harness.jobs.end(job, Phase.SUCCEEDED, "done")
        wait_until(
            lambda: FINALIZER not in (team.find(WSJOB, job)["metadata"].get("finalizers") or ()),
            seconds=120,
            what="a wsjob that is let go",
        )
    done = helm("upgrade", RELEASE, chart)
    assert done.returncode == 0, done.stderr
    assert team.find(ROLE, "wsc-appliance-session") is None


def test_uninstalling_ends_the_jobs_of_every_namespace(harness, kube, own, team, helm):
    tmp_path, api = harness.directory, kube.as_account(own.namespace, account_token(own, NAME))
    with FakeNodes(team) as nodes:
        management = PlayedManagement(own, api)
        job = harness.submit(new_job("wsjob-a", session="research"))
        wait_until(lambda: len(nodes.started) == 2, seconds=60, what="running pods")
        hook = threading.Thread(target=play_hook, args=(own, kube, tmp_path))
        hook.start()
        done = helm("uninstall", RELEASE)
        hook.join(300)
        management.join()
        assert done.returncode == 0, done.stderr
        assert harness.jobs.load(job).phase.is_terminal
    assert not team.list(WSJOB)[0]
    listed = "roles,rolebindings,networkpolicies,poddisruptionbudgets"
    left = yaml.safe_load(kube.kubectl("get", listed, "-o", "yaml", namespace=team.namespace))
    assert [name_of(each) for each in left["items"]] == []


def test_two_sessions_cannot_have_one_namespace(tmp_path):
    both = {name: SessionNamespace(namespace="team") for name in ("a", secrets.token_hex(2))}
    with pytest.raises(UserError, match=r"Session .* is mapped to namespace team"):
        make_options(tmp_path, sessions=both).check_namespaces("wafer")
    mine = {"a": SessionNamespace(namespace="wafer")}
    with pytest.raises(UserError, match="which is that of the release"):
        make_options(tmp_path, sessions=mine).check_namespaces("wafer")


def test_kueue_queues_a_session_s_jobs_in_its_namespace_and_its_queue(kube, namespaces, tmp_path):
    install_kueue(kube.admin())
    rules = chart_rules("--set", "jobs.kueue.enabled=true")
    own, team = (kube.admin(name) for name in namespaces[:2])
    account = make_account(own, own.namespace, rules)
    bind(team, account, rules)
    mapped = SessionNamespace(namespace=team.namespace, kueue_queue="lessons")
    options = make_options(
        tmp_path, sessions={"research": mapped}, kueue=True, kueue_queue="wafers"
    )
    api = kube.as_account(own.namespace, account.token)
    with (
        FakeNodes(team) as nodes,
        FakeKueue(team, num_systems=2) as kueue,
        running_kube_harness(tmp_path, api, options) as harness,
    ):
        job = harness.submit(new_job("wsjob-a", session="research"))
        wait_until(lambda: len(nodes.started) == 2, seconds=120, what="running pods")
        assert kueue.find(job)["spec"]["queueName"] == "lessons"
    assert not of_jobs(own)


def bind(admin, account, rules):
    """Give an account of another namespace rights here."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{admin.namespace}"
    admin._call("POST", f"{rbac}/roles", body={"metadata": {"name": "there"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "appliance", "namespace": account.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "there"}
    binding = {"metadata": {"name": "there"}, "roleRef": role, "subjects": [subject]}
    admin._call("POST", f"{rbac}/rolebindings", body=binding)
