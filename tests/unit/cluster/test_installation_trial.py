"""What `helm test` finds out, and what it says is wrong."""

import pytest

from appliance.cluster.kubernetes.hooks.trial import Driver, run_driver, unanswered
from appliance.core.clock import SystemClock
from appliance.core.errors import ClusterError
from tests.support.ports import free_port

COMMAND = ["python", "-c", "import cerebras.pytorch"]
TRIAL = Driver(name="trial", command=COMMAND, uid=10001)


class Cluster:
    """An API server with one wsjob, whose status somebody has written."""

    def __init__(self, status, others=()):
        self._status, self._others = status, others
        self.names = []

    def create(self, kind, body):
        assert body["spec"]["driver"]["command"] == COMMAND
        self.names.append(body["metadata"]["name"])

    def find(self, kind, name):
        return {"status": self._status} if name in self.names else None

    def list(self, kind):
        return [{"metadata": {"name": self.names[0]}, "status": self._status}, *self._others], ""

    def delete(self, kind, name):
        self.names.remove(name)


def test_a_driver_that_ends_well_leaves_nothing():
    cluster = Cluster({"phase": "SUCCEEDED", "message": "exit code 0"})
    told = list(run_driver(cluster, TRIAL, SystemClock(), patience_seconds=0))
    assert told == ["wsjob trial: SUCCEEDED exit code 0"]
    assert cluster.names == []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"phase": "FAILED", "message": "no such image"}, "is FAILED: no such image"),
        ({"phase": "FAILED"}, "is FAILED: see `kubectl describe wsjob`"),
        ({"phase": "QUEUED", "message": "no node"}, "is QUEUED after -1 seconds: no node"),
        ({}, "is not seen after -1 seconds: no controller has looked at it"),
    ],
)
def test_one_that_does_not_says_why_and_stays(status, words):
    cluster = Cluster(status)
    with pytest.raises(ClusterError) as failed:
        list(run_driver(cluster, TRIAL, SystemClock(), patience_seconds=-1.0))
    assert f"The wsjob trial {words}" in str(failed.value)
    assert cluster.names == ["trial"]


def job(name, **status):
    return {"metadata": {"name": name}, "status": status}


def test_one_that_waits_for_the_jobs_of_its_script_says_how_they_fare():
    mine = {"workflow": "wflow-a"}
    others = [
        job("done", type="compile", phase="SUCCEEDED", message="done", **mine),
        job("waits", type="execute", phase="QUEUED", message="no system is free", **mine),
        job("other", type="execute", phase="QUEUED", message="elsewhere", workflow="wflow-b"),
        {"metadata": {"name": "new"}},
    ]
    cluster = Cluster({"phase": "RUNNING", "type": "driver", **mine}, others)
    with pytest.raises(ClusterError) as failed:
        list(run_driver(cluster, TRIAL, SystemClock(), patience_seconds=-1.0))
    said = str(failed.value)
    assert said.endswith("its pods; its execute job waits is QUEUED: no system is free.")


def test_it_runs_with_the_group_of_its_user_and_goes_after_a_day():
    spec = Driver(name="trial", command=COMMAND, uid=1000680000).wsjob()["spec"]
    assert spec["user"] == {"uid": 1000680000, "name": "helm-test"}
    assert spec["ttlSecondsAfterFinished"] == 24 * 3600


def test_a_port_that_does_not_answer_is_named(tmp_path):
    url = f"https://localhost:{free_port()}/healthz"
    assert unanswered(url, tmp_path / "missing").startswith(f"{url} does not answer: ")
