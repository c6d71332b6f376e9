"""The controller is killed at forty random moments under load, and no job notices.

Jobs come by kubectl and by clients; pods succeed, fail, and are deleted by strangers; wsjobs are
deleted. Whatever the moment: no job is lost, no pod starts twice, nothing is left over, and no
finalizer holds anything back.
"""

import os
import random
import subprocess
import sys
import threading
from collections import Counter

from appliance.cluster.kubernetes.gangs import is_ended
from appliance.cluster.kubernetes.object_kinds import (
    JOB_LABEL,
    POD,
    WSJOB,
    name_of,
)
from appliance.core.clock import SystemClock
from appliance.core.cluster.jobs import Phase, may_follow
from appliance.core.cluster.records import User
from appliance.core.ids import WorkflowId, new_job_id
from appliance.core.queries.job_filter import JobFilter
from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from tests.support.fake_nodes import ROOT, FakeNodes
from tests.support.management import new_job
from tests.support.waiting import wait_until

NUM_KILLS = 40
SEED = 20264
MAX_OPEN = 6


class Zygote:
    """Forks controllers and kills them."""

    def __init__(self, directory, kubeconfig):
        self._log = (directory / "zygote.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.kube_zygote", str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=ROOT,
            env={**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(ROOT)},
        )

    def start(self):
        self._command(b"start\n")

    def wait_ready(self):
        answer = self._process.stdout.readline()
        assert answer == b"ready\n", "the controller did not start; see zygote.log"

    def kill(self):
        self._command(b"kill\n")
        while (answer := self._process.stdout.readline()) != b"killed\n":
            assert answer == b"ready\n", "the controller ended by itself; see zygote.log"

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._log.close()

    def _command(self, line):
        self._process.stdin.write(line)
        self._process.stdin.flush()


class Load:
    """Makes jobs and ends them one way or the other."""

    def __init__(self, admin, state, nodes, chance):
        self._admin, self._state, self._nodes, self._chance = admin, state, nodes, chance
        self.drivers, self.executes, self.deleted = {}, {}, set()
        self._settled = set()

    def step(self):
        """Do one thing."""
        open_jobs = [each for each in self._admin.list(WSJOB)[0] if not _is_over(each)]
        if len(open_jobs) < MAX_OPEN:
            self._chance.choice((self._add_driver, self._add_execute))()
        running = [
            pod
            for pod in self._nodes.pods()
            if pod.get("status", {}).get("phase") == "Running"
            and pod["metadata"]["labels"][JOB_LABEL] not in self._settled
        ]
        if running and self._chance.random() < 0.6:
            self._end_pod(self._chance.choice(running))
        elif open_jobs and self._chance.random() < 0.3:
            wsjob = self._chance.choice(open_jobs)
            self.deleted.add(name_of(wsjob))
            self._admin.delete(WSJOB, name_of(wsjob))

    def _add_driver(self):
        name = f"run-{len(self.drivers)}"
        spec = {
            "user": {"uid": 1000, "gid": 100, "name": "ada"},
            "driver": {"command": ["true"], "workingDir": "/"},
        }
        self.drivers[name] = self._admin.create(WSJOB, {"metadata": {"name": name}, "spec": spec})

    def _add_execute(self):
        """Keep a job as a management does that is killed right after it has answered."""
        job = new_job_id()
        workflow = WorkflowId("wflow-1")
        user = User(uid=1000, gid=100, name="ada")
        self._state.workflows.ensure(workflow, session="job-operator", user=user)
        self.executes[job] = self._state.jobs.create(new_job(job, num_systems=1))

    def _end_pod(self, pod):
        self._settled.add(pod["metadata"]["labels"][JOB_LABEL])
        if self._chance.random() < 0.3:
            self._admin.delete(POD, name_of(pod))
        else:
            self._nodes.end(name_of(pod), self._chance.choice((0, 0, 1, 137)))


def _is_over(wsjob):
    phase = (wsjob.get("status") or {}).get("phase")
    return phase in ("SUCCEEDED", "FAILED", "CANCELLED")


def leftovers(admin):
    """Return what there is beside wsjobs that have ended."""
    found = [name_of(each) for each in admin.list(POD, JOB_LABEL)[0] if not is_ended(each)]
    return found + [
        f"{name_of(wsjob)} {wsjob.get('status', {}).get('phase')}"
        for wsjob in admin.list(WSJOB)[0]
        if not _is_over(wsjob) or wsjob["metadata"].get("finalizers")
    ]


def test_no_job_notices_that_the_controller_was_killed(kube, account, tmp_path):
    chance, admin = random.Random(SEED), account.admin
    kubeconfig = kube.write_kubeconfig(tmp_path / "kubeconfig", account.token, account.namespace)
    database = Database.open_sqlite(tmp_path / "state.db")
    state = State.over(database, SystemClock())
    zygote = Zygote(tmp_path, kubeconfig)
    try:
        with FakeNodes(admin) as nodes:
            zygote.start()
            zygote.wait_ready()
            load = Load(admin, state, nodes, chance)
            for _ in range(NUM_KILLS):
                load.step()
                wait_until_moment(chance.uniform(0.0, 0.4))
                zygote.kill()
                load.step()
                zygote.start()
                if chance.random() < 0.7:  # else it is killed while it starts
                    zygote.wait_ready()
            wait_until_settled(tmp_path / "gangs" / account.namespace, nodes, admin)
            check(load, nodes, state, admin)
    finally:
        zygote.close()
        database.close()


def wait_until_moment(seconds):
    """Let a random time pass: the moment of the kill is what the test is about."""
    threading.Event().wait(seconds)


def wait_until_settled(records, nodes, admin):
    """Let all that is open end, without another kill."""

    def is_settled():
        for pod in nodes.pods():
            if pod.get("status", {}).get("phase") == "Running":
                nodes.end(name_of(pod), 0)
        return not leftovers(admin) and not any(records.iterdir())

    wait_until(is_settled, seconds=90, what="the end of all", seen=lambda: str(leftovers(admin)))


def check(load, nodes, state, admin):
    twice = [name for name, count in Counter(nodes.started).items() if count > 1]
    assert twice == []
    records = {job.id: job for job in state.jobs.list(JobFilter(with_finished=True))}
    wsjobs = {name_of(each): each for each in admin.list(WSJOB)[0]}
    assert load.deleted.isdisjoint(wsjobs)
    assert set(load.executes) <= set(records)
    for name in load.drivers.keys() - load.deleted:
        status = wsjobs[name]["status"]
        assert records[status["job"]].phase.value == status["phase"]
    assert len(records) >= len(load.executes) + len(load.drivers.keys() - load.deleted)
    for job in records:
        entered = [each.phase for each in state.jobs.events(job) if each.phase is not None]
        for before, after in zip([Phase.CREATED, *entered], entered, strict=False):
            assert before is after is Phase.CREATED or may_follow(before, after), (job, entered)
        assert sum(phase.is_terminal for phase in entered) == 1
    assert len(records) >= NUM_KILLS // 3, "too little happened for the test to say anything"
