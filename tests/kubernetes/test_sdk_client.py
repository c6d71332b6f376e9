"""The public SDK client on pods of a cluster: an SDK job is one pod there, too.

The API server is real, the nodes are played, but they run each pod's command as a process.
"""

import pytest

from appliance.cluster.kubernetes.gangs import is_ended
from appliance.cluster.kubernetes.object_kinds import JOB_LABEL, POD
from tests.support.appliance import ROOT
from tests.support.fake_nodes import FakeNodes
from tests.support.kube_appliance import KubeAppliance
from tests.support.sdk_client import result_of, start_sdk_client
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow]

ADDRESSES = {"node-1": "127.0.0.1"}


def test_the_sdk_client_does_all_that_it_can_do(kube, account, tmp_path):
    kubeconfig = kube.write_kubeconfig(tmp_path / "kubeconfig", account.token, account.namespace)
    with FakeNodes(account.admin, addresses=ADDRESSES, directory=tmp_path / "kubelet") as nodes:
        management = KubeAppliance(tmp_path / "appliance", kubeconfig, lease_seconds=8.0)
        management.nodes = nodes
        try:
            first = management.start_replica()
            wait_until(
                lambda: management.leader_pid() == first.pid,
                seconds=60,
                what="a leader",
                seen=management.logs,
            )
            config = management.appliance.config_path
            sources = str(ROOT / "examples" / "csl")
            found = result_of(
                start_sdk_client("whole.py", tmp_path / "client", config, sources, "wse2")
            )
            assert found["artifact"] == found["again"]
            assert found["is_right"]
            assert "SUCCESS!" in found["launched"]
            wait_until(
                lambda: all(map(is_ended, account.admin.list(POD, JOB_LABEL)[0])),
                seconds=120,
                what="the end of every pod",
            )
        finally:
            management.close()
