"""Compile jobs on a real appliance whose memory is taken: only unknown programs wait."""

import json
from pathlib import Path

import grpc
import pytest

from protos.appliance import appliance_service_pb2 as pb
from protos.appliance import appliance_service_pb2_grpc
from tests.support.appliance_process import REAL_COORDINATOR, running_appliance, wait_for
from tests.support.rest import rest_client

pytestmark = pytest.mark.slow

CLUSTER = """
systems: [{name: systemf0}]
nodes:
  - {name: node0, roles: [management], cores: 8, memory: 100Gi}
  - {name: node1, roles: [activation, broadcastreduce, worker], cores: 8, memory: 64Gi}
pod_memory: {compile: 60Gi, execute: 60Gi}
"""
PROGRAM = (Path(__file__).parents[1] / "unit" / "compiler" / "programs" / "mlp.mlir").read_text()


@pytest.fixture
def appliance(tmp_path):
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    arguments = ("--cluster", str(tmp_path / "cluster.yaml"), "--lease-seconds", "900")
    with running_appliance(tmp_path / "data", *arguments, coordinator=REAL_COORDINATOR) as running:
        yield running


class Compile:
    """A compile job whose client sends a program."""

    def __init__(self, appliance, text):
        self.job = appliance.submit_compile()
        ingress = appliance.wait_ready(self.job)[-1]
        options = [("grpc.default_authority", ingress.service_authority)]
        self._channel = grpc.insecure_channel(ingress.service_url, options)
        stub = appliance_service_pb2_grpc.ApplianceStub(self._channel)
        request = pb.CompileRequest(
            cirh_content=text, batch_size=4, num_csx=1, num_workers_per_csx=1, compile_dir="c"
        )
        self.answer = stub.UnaryCompile.future(request)

    def close(self):
        self._channel.close()


def test_a_known_program_never_queues_and_an_unknown_one_waits_for_memory(appliance):
    first = Compile(appliance, PROGRAM)
    known = first.answer.result(timeout=300).cache_compile_dir
    first.close()
    with rest_client(appliance) as rest:
        rest.post(f"jobs/{first.job}/cancel")
        wait_for(lambda: rest.get(f"jobs/{first.job}").json()["phase"] == "CANCELLED")
        execute = appliance.submit_execute()  # takes 60 of 100 Gi of management memory
        wait_for(lambda: rest.get(f"jobs/{execute}").json()["started_at"])

        hit = Compile(appliance, PROGRAM)
        assert hit.answer.result(timeout=300).cache_compile_dir == known

        miss = Compile(appliance, f"{PROGRAM}\n// another program\n")
        wait_for(lambda: rest.get(f"jobs/{miss.job}/waiting").json(), what="a place in the queue")
        waiting = rest.get(f"jobs/{miss.job}/waiting").json()
        assert (waiting["kind"], waiting["blocking"]) == ("Resources", [execute])
        assert waiting["expected_start_at"] is not None
        assert waiting["expected_run_seconds"] > 0
        assert [item["job"]["id"] for item in rest.get("queue").json()["items"]] == [miss.job]
        assert not miss.answer.done()

        again = Compile(appliance, PROGRAM)  # behind one that waits
        assert again.answer.result(timeout=300).cache_compile_dir == known

        rest.post(f"jobs/{execute}/cancel")
        assert miss.answer.result(timeout=300).cache_compile_dir != known
        assert rest.get(f"jobs/{miss.job}/waiting").json() is None
        events = rest.get(f"jobs/{miss.job}/events").json()["items"]
        assert "CompileAdmitted" in {event["reason"] for event in events}, json.dumps(events)
        for each in (hit, miss, again):
            each.close()
