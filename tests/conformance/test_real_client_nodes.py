"""The real client on an appliance of several nodes: the same bits as on one machine.

On one machine one SwarmX pod serves all systems; on the nodes a tree of them does.
"""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from appliance.management.store.instance import Instance
from tests.conformance.test_real_client_training import state_of
from tests.support.appliance import Appliance, running_appliance
from tests.support.client import ClientRun, losses, start_client
from tests.support.nodes import (
    NodeProcess,
    agent_arguments,
    joined_nodes,
    write_token,
)
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow]

NODES = (
    ("head", "127.0.0.1", ("management", "memory", "worker")),
    ("csx-0", "127.0.0.2", ("activation", "broadcastreduce")),
    ("csx-1", "127.0.0.3", ("activation", "broadcastreduce")),
)


def train(
    address: str, work: Path, meanwhile: Callable[[ClientRun], None] = lambda _: None
) -> tuple[list[float], dict[str, np.ndarray]]:
    run = start_client(
        work,
        *("--model", "gpt_adamw", "--steps", "16", "--num-csx", "3"),
        *("--loader", "slow", "--seconds-per-batch", "0.5"),
        *("--save", str(work / "state.mdl")),
        address=address,
    )
    meanwhile(run)
    result = run.result()
    return losses(result), state_of(result["checkpoints"][-1]["path"])


def phases(appliance: Appliance) -> set[str]:
    return {job["status"]["phase"] for job in appliance.jobs()}


def swarmx_places(appliance: Appliance) -> list[set[str]]:
    """Return the nodes of the SwarmX pods of each job that has any."""
    found: list[set[str]] = []
    for job in appliance.jobs():
        text = appliance.csctl("cluster", "job-topology", job["meta"]["name"], "-o", "json")
        pods = json.loads(text)["connections"]
        found.append({pod["nodeName"] for pod in pods if "-broadcastreduce-" in pod["podId"]})
    return [nodes for nodes in found if nodes]


def test_three_nodes_give_the_same_bits_even_if_management_is_killed(
    appliance: Appliance, tmp_path: Path
) -> None:
    want_losses, want_state = train(appliance.address, tmp_path / "embedded")
    inner_port, node_port, port, rest_port = free_ports(4)
    arguments = (
        *agent_arguments(inner_port, node_port),
        *("--systems", "3", "--streams", "network-tls"),
        *("--port", str(port), "--rest-port", str(rest_port)),
    )
    with running_appliance(tmp_path / "appliance", *arguments) as cluster:
        token = write_token(cluster.data_dir)
        nodes = [
            NodeProcess(
                name,
                address,
                roles,
                join=f"127.0.0.1:{node_port}",
                token=token,
                directory=tmp_path,
                # Without TLS the client goes to a coordinator only if it is called localhost.
                extra=("--cores", "1", "--public-host", "localhost"),
            )
            for name, address, roles in NODES
        ]

        def kill_management(run: ClientRun) -> None:
            seen = "train step 2 "
            wait_until(lambda: seen in run.text(), seconds=400, what=seen, seen=run.text)
            instance = Instance(cluster.data_dir)
            state = instance.find_state()
            assert state is not None
            os.kill(state.pid, signal.SIGKILL)
            what = "the end of management"
            wait_until(lambda: not instance.is_running(), seconds=60, what=what)
            cluster.up(*arguments)

        with joined_nodes(*nodes):
            got_losses, got_state = train(cluster.address, tmp_path / "nodes", kill_management)
            # A client that ends while management is away cannot say so; its lease ends the job.
            wait_until(
                lambda: phases(cluster) <= {"SUCCEEDED", "CANCELLED"},
                seconds=300,
                what="every job has ended well",
                seen=lambda: str(phases(cluster)),
            )
            assert swarmx_places(cluster) == [{"csx-0", "csx-1"}]
    assert got_losses == want_losses
    assert sorted(got_state) == sorted(want_state)
    for name, tensor in want_state.items():
        assert tensor.tobytes() == got_state[name].tobytes(), name
