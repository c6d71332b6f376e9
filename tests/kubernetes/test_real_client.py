"""The real client trains on pods of a cluster, and does not notice that the leader changes.

It is connected as the chart has it: encrypted, through a proxy that is not part of management.
SwarmX is a tree of pods over the cluster's nodes.
The API server is real, the nodes are played, but they run each pod's command as a process. They
never refresh a file that shows an annotation, as a kubelet may do only minutes later.
"""

import os
import signal

import pytest

from appliance.cluster.kubernetes.gangs import is_ended
from appliance.cluster.kubernetes.object_kinds import JOB_LABEL, POD, ROLE_LABEL, WSJOB
from tests.support.appliance import running_appliance
from tests.support.client import losses, start_client
from tests.support.fake_nodes import FakeNodes
from tests.support.kube_appliance import KubeAppliance
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow]

STEPS = 40
TRAINING = ("--model", "gpt_adamw", "--steps", str(STEPS), "--num-csx", "4")
ADDRESSES = {f"node-{number}": f"127.0.0.{number}" for number in (1, 2, 3)}
CLUSTER = """
systems:
  - {count: 4}
nodes:
  - {roles: [management, worker], count: 1, memory: 64Gi, cores: 8}
  - {roles: [activation, broadcastreduce], count: 3, memory: 64Gi, cores: 8}
"""
"""Three nodes for SwarmX: four systems get a root and two pods below it."""


@pytest.fixture
def managements(kube, account, tmp_path):
    kubeconfig = kube.write_kubeconfig(tmp_path / "kubeconfig", account.token, account.namespace)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    cluster = ("--cluster", str(tmp_path / "cluster.yaml"))
    kubelet = tmp_path / "kubelet"
    with FakeNodes(account.admin, addresses=ADDRESSES, directory=kubelet, refreshes=False) as nodes:
        # Seventeen pods start at once on this machine, and the API server among them.
        managements = KubeAppliance(
            tmp_path / "appliance", kubeconfig, cluster=cluster, lease_seconds=15.0
        )
        managements.nodes = nodes
        yield managements
        managements.close()


def wsjobs(admin):
    return [(each["spec"]["type"], each.get("status", {})) for each in admin.list(WSJOB)[0]]


def swarmx_nodes(admin):
    pods = admin.list(POD, f"{ROLE_LABEL}=broadcastreduce")[0]
    return sorted(pod["spec"]["nodeName"] for pod in pods)


def read_by_the_kubelet(admin):
    """A driver's script has the variables that the kubelet has read for its pod."""
    driver = {
        "command": ["sh", "-c", "echo the pod is at $WHERE; exit 3"],
        "workingDir": "/",
        "valueFrom": {"WHERE": {"fieldRef": {"fieldPath": "status.podIP"}}},
    }
    spec = {"user": {"uid": os.getuid() or 1000, "name": "ada"}, "driver": driver}
    admin.create(WSJOB, {"metadata": {"name": "reads"}, "spec": spec})
    wait_until(
        lambda: admin.find(WSJOB, "reads").get("status", {}).get("phase") == "FAILED",
        seconds=120,
        what="the end of the script",
        seen=lambda: str(wsjobs(admin)),
    )
    assert "the pod is at 127.0.0." in admin.find(WSJOB, "reads")["status"]["message"]
    admin.delete(WSJOB, "reads")


def test_a_wsjob_trains_for_real_while_the_leader_changes(managements, account, tmp_path):
    managements.start_proxy()
    first = managements.start_replica()
    wait_until(
        lambda: managements.leader_pid() == first.pid,
        seconds=60,
        what="a leader",
        seen=managements.logs,
    )
    managements.start_replica()
    read_by_the_kubelet(account.admin)
    config = managements.appliance.config_path
    token = managements.token()
    run = start_client(tmp_path / "client", *TRAINING, config=config, token=token)
    wait_until(
        lambda: "train step 3 " in run.text(),
        seconds=240,
        what="a third step",
        seen=lambda: f"{run.text()}\n{wsjobs(account.admin)}\n{managements.logs()}",
    )
    assert swarmx_nodes(account.admin) == sorted(ADDRESSES)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert f"train step {STEPS} " not in run.text()
    got = losses(run.result())
    wait_until(
        lambda: (
            [status.get("phase") for _, status in wsjobs(account.admin)]
            == ["SUCCEEDED", "SUCCEEDED"]
        ),
        seconds=60,
        what="wsjobs that have succeeded",
        seen=lambda: f"{wsjobs(account.admin)}\n{managements.logs()}",
    )
    assert managements.leader_pid() == managements.replicas[1].pid
    wait_until(
        lambda: all(map(is_ended, account.admin.list(POD, JOB_LABEL)[0])),
        seconds=120,
        what="the end of every pod",
    )
    with running_appliance(tmp_path / "embedded", "--systems", "4") as embedded:
        run = start_client(tmp_path / "again", *TRAINING, address=embedded.address)
        assert got == losses(run.result())
