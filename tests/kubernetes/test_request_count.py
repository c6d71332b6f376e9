"""What a job costs the API server."""

from collections import Counter
from urllib.parse import urlsplit

import pytest

from appliance.cluster.kubernetes.object_kinds import WSJOB
from tests.support.fake_nodes import FakeNodes
from tests.support.kube_harness import running_kube_harness
from tests.support.kube_jobs import make_options
from tests.support.waiting import wait_until

NUM_JOBS = 5


@pytest.fixture
def requests(api, monkeypatch):
    """Count the requests of the appliance, by verb and resource."""
    counted = Counter()
    pool = api._client.rest_client.pool_manager
    request = pool.request

    def counting(method, url, **arguments):
        _, _, of_namespace = urlsplit(url).path.partition("/namespaces/")
        _, resource, *rest = [*of_namespace.split("/"), ""]
        counted[" ".join((method, resource, *rest[1:2]))] += 1
        return request(method, url, **arguments)

    monkeypatch.setattr(pool, "request", counting)
    return counted


def test_a_job_of_one_pod_takes_at_most_six_requests(api, account, tmp_path, requests):
    """Its end comes after its start was shown, as on nodes that take seconds to run anything."""
    admin = account.admin
    spec = {
        "user": {"uid": 1000, "gid": 100, "name": "ada"},
        "driver": {"command": ["true"], "workingDir": "/"},
    }
    with FakeNodes(admin) as nodes, running_kube_harness(tmp_path, api, make_options(tmp_path)):
        wait_until(lambda: requests["PATCH wscsystems status"] >= 2, seconds=60, what="systems")
        requests.clear()
        for number in range(NUM_JOBS):
            admin.create(WSJOB, {"metadata": {"name": f"run-{number}"}, "spec": spec})

        def are_all(phase):
            shown = [each.get("status") or {} for each in admin.list(WSJOB)[0]]
            return [each.get("phase") for each in shown] == [phase] * NUM_JOBS

        wait_until(lambda: are_all("RUNNING"), seconds=120, what="jobs that run")
        wait_until(lambda: len(nodes.started) == NUM_JOBS, seconds=120, what="pods that run")
        for pod in nodes.started:
            nodes.end(pod, 0)
        wait_until(lambda: are_all("SUCCEEDED"), seconds=120, what="the end of all")
        wait_until(
            lambda: not any(each["metadata"].get("finalizers") for each in admin.list(WSJOB)[0]),
            seconds=120,
            what="wsjobs that are let go",
        )
        # What the namespace says of resources is asked for all jobs of half a minute at once.
        assert 1 <= requests.pop("GET limitranges") < NUM_JOBS
        # What shows a system may be written twice: before and after its own creation is heard of.
        assert {what: n for what, n in requests.items() if "wscsystems" not in what} == {
            "PATCH wsjobs ": 2 * NUM_JOBS,
            "PATCH wsjobs status": 2 * NUM_JOBS,
            "POST pods": NUM_JOBS,
        }
