"""What a driver's script finds: a real process, with the environment that a pod gives it."""

import sys
from pathlib import Path

import pytest

from appliance.core.cluster.drivers import DriverSpec
from appliance.core.ids import Role, new_job_id
from appliance.core.pods.pod_options import DriverPodOptions
from appliance.core.pods.pod_spec import PodSpec
from appliance.management.front.client_config import write_client_config
from appliance.pods.job_user import JobUser
from workers.driver.script import Script

TOLD = ("PATH", "CSCONFIG_PATH", "HOME", "no_proxy", "NO_PROXY", "no_grpc_proxy")
TELL = f"import os; print(*(f'{{k}}={{os.environ.get(k)}}' for k in {TOLD}))"
STRANGER = JobUser(uid=None, gid=None, groups=(), name="ada", home="/")


def told(
    directory: Path,
    capfd: pytest.CaptureFixture[str],
    environment: dict[str, str],
    options: DriverPodOptions,
) -> dict[str, str]:
    job = new_job_id()
    pod = PodSpec(
        job=job,
        role=Role.DRIVER,
        index=0,
        runtime_dir=directory,
        work_dir=directory,
        management_address="",
        options=options,
    )
    driver = DriverSpec(
        argv=(sys.executable, "-c", TELL), work_dir=str(directory), environment=environment
    )
    assert Script(pod, driver, STRANGER, token="not-seen").run(0) == 0
    words = capfd.readouterr().out.split()
    return dict(word.split("=", 1) for word in words)


def test_on_a_cluster_the_pod_s_own_address_and_programs_count(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = DriverPodOptions(client_config=Path("/etc/wsc/client_config"), path="/opt/client/bin")
    sent = {"CSCONFIG_PATH": "/of/the/user/node", "PATH": "/home/ada/bin"}
    found = told(tmp_path, capfd, sent, options)
    assert found["CSCONFIG_PATH"] == "/etc/wsc/client_config"
    assert found["PATH"] == "/home/ada/bin:/opt/client/bin"
    assert told(tmp_path, capfd, {}, options)["PATH"] == "/opt/client/bin"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({}, "None"),
        ({"no_proxy": "a.example"}, "a.example"),
        ({"https_proxy": "http://proxy:3128"}, "OWN"),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "a.example"}, "a.example,OWN"),
        ({"grpc_proxy": "http://proxy:3128", "no_proxy": "a.example,::1"}, "a.example,::1,OWN"),
        ({"all_proxy": "socks5://proxy:1080", "no_proxy": "*"}, "*"),
    ],
)
def test_on_a_cluster_no_proxy_is_asked_for_the_appliance(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], sent: dict[str, str], expected: str
) -> None:
    config = tmp_path / "config_v2"
    write_client_config(config, address="wafer.team.svc:9000", authority_pem=None)
    found = told(tmp_path, capfd, sent, DriverPodOptions(client_config=config))
    own = "wafer.team.svc,localhost,127.0.0.1" + ("" if "::1" in expected else ",::1")
    assert found["no_proxy"] == expected.replace("OWN", own)
    if "OWN" in expected:
        assert found["NO_PROXY"] == found["no_proxy"]
    assert found["no_grpc_proxy"] == "None"


def test_what_grpc_alone_reads_is_told_the_same(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config_v2"
    write_client_config(config, address="[fd00::7]:9000", authority_pem=None)
    sent = {"https_proxy": "http://proxy:3128", "no_grpc_proxy": "b.example"}
    found = told(tmp_path, capfd, sent, DriverPodOptions(client_config=config))
    assert found["no_grpc_proxy"] == "b.example,fd00::7,localhost,127.0.0.1,::1"


def test_elsewhere_what_the_terminal_has_sent_counts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sent = {"CSCONFIG_PATH": "/of/the/user", "PATH": "/home/ada/bin"}
    found = told(tmp_path, capfd, sent, DriverPodOptions())
    assert (found["CSCONFIG_PATH"], found["PATH"]) == ("/of/the/user", "/home/ada/bin")
    assert "/usr/bin" in told(tmp_path, capfd, {}, DriverPodOptions())["PATH"]


def test_a_user_whom_only_the_user_node_knows_has_a_home_to_write_to(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert told(tmp_path, capfd, {}, DriverPodOptions())["HOME"] == str(tmp_path)
    assert told(tmp_path, capfd, {"HOME": "/home/x"}, DriverPodOptions())["HOME"] == "/home/x"
