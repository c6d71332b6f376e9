"""Jobs in namespaces with LimitRanges and quotas, as the API server's own admission has them."""

import json
from dataclasses import replace

import pytest

from appliance.cluster.kubernetes.object_kinds import LIMIT_RANGE, POD, WSJOB, Kind
from appliance.core.errors import ClusterError
from tests.support.fake_nodes import FakeNodes
from tests.support.kube_harness import running_kube_harness
from tests.support.kube_jobs import make_options
from tests.support.management import new_job
from tests.support.waiting import wait_until

QUOTA = Kind(group="", version="v1", plural="resourcequotas", name="ResourceQuota")
REQUESTS = {"cpu": "50m", "memory": "512Mi", "ephemeral-storage": "256Mi"}
"""What pods of the two roles ask for here, with no plan."""


def range_of(kind="Container", **fields):
    return {"type": kind, **fields}


TAKEN = {
    "default-limits": (
        [range_of(default={"memory": "128Mi", "cpu": "2"}, defaultRequest={"memory": "64Mi"})],
        {"memory": "512Mi"},
        {"memory": "512Mi", "cpu": "2"},
    ),
    "the-least": (
        [range_of(min={"memory": "1Gi"}), range_of("Pod", min={"cpu": "200m"})],
        {"memory": "1Gi", "cpu": "200m"},
        {},
    ),
    "the-most": (
        [range_of(max={"memory": "4Gi"}, default={"memory": "256Mi"})],
        {"memory": "512Mi"},
        {"memory": "512Mi"},
    ),
    "the-most-of-a-pod": ([range_of("Pod", max={"memory": "4Gi"})], {}, {"memory": "4Gi"}),
    "a-ratio": (
        [range_of(maxLimitRequestRatio={"memory": "2"}, default={"memory": "768Mi"})],
        {},
        {"memory": "768Mi"},
    ),
}
"""What a LimitRange says, and what containers then request and are limited to."""

REFUSED = {
    "too-much": (
        [range_of(max={"memory": "256Mi"})],
        "maximum memory usage per Container is 256Mi, but limit is 512Mi",
    ),
    "too-much-for-a-pod": (
        [range_of("Pod", max={"memory": "256Mi"})],
        "maximum memory usage per Pod is 256Mi, but limit is",
    ),
    "a-ratio": (
        [range_of(maxLimitRequestRatio={"cpu": "2"}, default={"cpu": "4"})],
        "cpu max limit to request ratio per Container is 2, but provided ratio is",
    ),
    "a-ratio-without-a-limit": (
        [range_of(maxLimitRequestRatio={"memory": "2"})],
        "memory max limit to request ratio per Container is 2, but no",
    ),
}
"""What a LimitRange says, and what a job that waits for it says."""


@pytest.fixture
def harness(api, account, tmp_path):
    with (
        FakeNodes(account.admin) as nodes,
        running_kube_harness(tmp_path, api, make_options(tmp_path)) as harness,
    ):
        harness.nodes = nodes
        yield harness


def set_limits(admin, limits):
    if admin.find(LIMIT_RANGE, "team") is not None:
        admin.delete(LIMIT_RANGE, "team")
    if limits:
        admin.create(LIMIT_RANGE, {"metadata": {"name": "team"}, "spec": {"limits": limits}})
        wait_until(lambda: is_in_force(admin), seconds=60, what="admission that knows the limits")


def is_in_force(admin):
    """Whether the server's admission, which has a cache, has seen the LimitRange."""
    container = {"name": "probe", "image": "probe"}
    spec = {"containers": [container], "automountServiceAccountToken": False}
    body = {"metadata": {"name": "probe"}, "spec": spec}
    try:
        made = admin._call("POST", POD.path(admin.namespace) + "?dryRun=All", body=body)
    except ClusterError:
        return True
    return "kubernetes.io/limit-ranger" in (made["metadata"].get("annotations") or {})


def message_of(admin, job):
    return ((admin.find(WSJOB, job) or {}).get("status") or {}).get("message", "")


def started(harness, job):
    wait_until(
        lambda: len(harness.nodes.started) == 2,
        seconds=120,
        what="both pods",
        seen=lambda: json.dumps(harness.wsjobs and message_of(harness.nodes._api, job)),
    )
    return [pod["spec"]["containers"][0]["resources"] for pod in harness.nodes.pods()]


@pytest.mark.parametrize("name", TAKEN)
def test_pods_are_as_a_limit_range_wants_them(harness, account, name):
    limits, requests, given = TAKEN[name]
    set_limits(account.admin, limits)
    for found in started(harness, harness.submit(new_job("wsjob-a"))):
        assert found["requests"].items() >= (REQUESTS | requests).items() - {("cpu", "50m")}
        assert (found.get("limits") or {}) == given


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_limit_range_refuses_is_the_job_s_message(harness, account, name):
    limits, words = REFUSED[name]
    set_limits(account.admin, limits)
    job = harness.submit(new_job("wsjob-a"))
    wait_until(
        lambda: words in message_of(account.admin, job),
        seconds=120,
        what="the server's words",
        seen=lambda: message_of(account.admin, job),
    )
    set_limits(account.admin, [])
    started(harness, job)


def test_a_quota_of_limits_says_that_pods_have_none(harness, account):
    """Until a LimitRange gives them one, or `jobs.resources` does."""
    admin, hard = account.admin, {"limits.memory": "16Gi"}
    admin.create(QUOTA, {"metadata": {"name": "team"}, "spec": {"hard": hard}})
    status = {"status": {"hard": hard, "used": {"limits.memory": "0"}}}
    admin.patch(QUOTA, "team", status, subresource="status")
    job = harness.submit(new_job("wsjob-a"))
    wait_until(
        lambda: "failed quota: team: must specify limits.memory" in message_of(admin, job),
        seconds=120,
        what="the quota's words",
        seen=lambda: message_of(admin, job),
    )
    set_limits(admin, [range_of(default={"memory": "1Gi"})])
    started(harness, job)


def test_what_the_server_calls_invalid_is_the_job_s_message(api, account, tmp_path):
    options = replace(make_options(tmp_path), priority_class="Not A Name")
    with FakeNodes(account.admin), running_kube_harness(tmp_path, api, options) as harness:
        job = harness.submit(new_job("wsjob-a"))
        wait_until(
            lambda: "Not A Name" in message_of(account.admin, job),
            seconds=120,
            what="the server's words",
            seen=lambda: message_of(account.admin, job),
        )
