"""Grafana dashboards and alert rules against a Prometheus that scrapes a running appliance."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import grpc
import httpx
import pytest

from appliance.core.cluster.readings import HELP
from deploy.grafana.generate import documents
from protos.wsc.v1 import management_pb2, management_pb2_grpc
from tests.support.appliance_process import running_appliance, wait_for
from tests.support.ports import free_port
from tests.support.rest import rest_client

FILES = Path(__file__).parents[2] / "helm/wsc-appliance/files"

pytestmark = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="Prometheus is missing: apt-get install prometheus",
)

_ROLES = {"wsc_memoryx": "weight", "wsc_swarmx": "broadcastreduce", "wsc_input": "worker"}


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    with running_appliance(data, "--lease-seconds", "900") as running:
        yield running


@pytest.fixture(scope="module")
def prometheus(appliance, tmp_path_factory):
    """Yield a client of a Prometheus that scrapes the appliance every second."""
    directory = tmp_path_factory.mktemp("prometheus")
    target = appliance.state.rest_url.removeprefix("http://")
    (directory / "prometheus.yml").write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s"},
                "scrape_configs": [
                    {"job_name": "wafer-appliance", "static_configs": [{"targets": [target]}]}
                ],
            }
        )
    )
    port = free_port()
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={directory}/prometheus.yml",
                f"--storage.tsdb.path={directory}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            yield client
    finally:
        process.terminate()
        process.wait(timeout=120)


def report(appliance, job: str, number: int) -> None:
    """Report readings as a coordinator does; they grow from report to report."""
    pods = []
    for role in ("chief", "weight", "broadcastreduce", "worker", "activation"):
        readings = {
            name: 1.0 + number
            for name in HELP
            if _ROLES.get("_".join(name.split("_")[:2]), "chief") == role
        }
        pods.append(
            management_pb2.PodReport(
                pod=f"{job}-{role}-0",
                role=role,
                step=number,
                resident_bytes=1 << 20,
                readings=readings,
            )
        )
    points = [
        management_pb2.SeriesPoint(name=name, session=1, step=number, value=2.5, at_seconds=1e9)
        for name in ("output_loss", "samples_per_second")
    ]
    with grpc.insecure_channel(f"unix:{appliance.state.runtime_root}/management.sock") as channel:
        stub = management_pb2_grpc.ManagementStub(channel)
        stub.ReportJob(management_pb2.JobReport(job=job, pods=pods, points=points))


def test_the_dashboards_are_what_their_generator_writes():
    for name, document in documents().items():
        assert json.loads((FILES / "grafana" / name).read_text()) == document, name


def test_the_alert_rules_are_valid():
    rules = FILES / "prometheus" / "rules.yml"
    checked = subprocess.run(
        ["promtool", "check", "rules", str(rules)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_panels_query_returns_data(appliance, prometheus):
    job = appliance.submit_execute()
    appliance.wait_ready(job)
    missing = {
        f"{document['title']}: {panel['title']}: {target['legendFormat']}": target["expr"]
        for document in documents().values()
        for panel in document["panels"]
        for target in panel.get("targets", ())
    }
    assert len(missing) > 30
    number = 0

    def all_answer() -> bool:
        nonlocal number
        number += 1
        report(appliance, job, number)
        with rest_client(appliance) as rest:
            rest.get("jobs")
        for title, query in list(missing.items()):
            asked = re.sub(r"\$(wsjob|replica_type|replica_id)\b", ".*", query)
            answer = prometheus.get("/api/v1/query", params={"query": asked}).json()
            assert answer["status"] == "success", (title, answer)
            if answer["data"]["result"]:
                del missing[title]
        return not missing

    wait_for(lambda: is_up(prometheus), what="Prometheus")
    try:
        wait_for(all_answer, seconds=300)
    except AssertionError:
        pytest.fail(f"no data for {missing}")


def is_up(prometheus: httpx.Client) -> bool:
    try:
        return prometheus.get("/-/ready").status_code == 200
    except httpx.HTTPError:
        return False
