"""docker-compose.yml for real: the public client's GPT on two systems, each in a container."""

import json
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.containers import NODES_UID, ROOT, Compose, Engine
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(3600)]

HERE = Path(__file__).parent
TRAINING = ("--num-csx", "2", "--steps", "6", "--seq-len", "64")


def losses_of(text: str) -> list[float]:
    (line,) = [line for line in text.splitlines() if line.startswith("LOSSES ")]
    return [float.fromhex(word) for word in line.split()[1:]]


def jobs(project: Compose) -> list[dict[str, Any]]:
    text = project.execute("user-node", "csctl", "get", "jobs", "-a", "-o", "json")
    items: list[dict[str, Any]] = json.loads(text)["items"]
    return items


@pytest.fixture(scope="session")
def embedded_losses(engine: Engine, project: Compose) -> list[float]:
    # In a container, so that both runs read the same Python's standard library.
    text = engine.docker(
        *("run", "--rm", "--init", "--read-only", "--network", "none", "--shm-size", "2g"),
        *("--tmpfs", "/tmp:exec", "--tmpfs", "/run/wsc:uid=10001,gid=10001,mode=0700"),
        *("--tmpfs", "/var/lib/wsc:uid=10001,gid=10001,mode=0700"),
        *("-v", f"{ROOT}/examples:/opt/examples:ro", "-v", f"{HERE}:/opt/tests:ro"),
        *("--entrypoint", "/opt/tests/embedded.sh", "wsc-appliance/input-node"),
        *TRAINING,
        timeout_seconds=900,
    )
    return losses_of(text)


def test_the_losses_are_those_of_the_embedded_appliance_bit_for_bit(
    project: Compose, embedded_losses: list[float]
) -> None:
    # Systems in containers of one machine share its cores as embedded ones do: as many threads, as
    # many partial sums of a product (with two threads one of these losses is another float32).
    copy = "rm -rf ~/gpt && cp -r /opt/examples/gpt ~/gpt && cat > ~/gpt/losses.py"
    project.feed("user-node", "sh", "-c", copy, text=(HERE / "losses.py").read_text())
    train = f"cd ~/gpt && python losses.py {' '.join(TRAINING)}"
    text = project.execute("user-node", "sh", "-c", train, timeout_seconds=900)
    assert len(embedded_losses) == 6
    assert losses_of(text) == embedded_losses
    assert {job["phase"] for job in map(status_of, jobs(project))} == {"SUCCEEDED"}


def status_of(job: dict[str, Any]) -> dict[str, Any]:
    status: dict[str, Any] = job["status"]
    return status


def test_a_job_can_be_cancelled_and_leaves_the_systems_free(project: Compose) -> None:
    copy = "cp -r /opt/examples/gpt ~/again"
    project.execute("user-node", "sh", "-c", copy)
    train = "cd ~/again && exec python train_gpt.py --num-csx 2 --steps 100000 --seq-len 64"
    client = project.start("user-node", "sh", "-c", train)

    def running() -> list[str]:
        found = [job for job in jobs(project) if job["spec"]["type"] == "execute"]
        return [job["meta"]["name"] for job in found if status_of(job)["phase"] == "RUNNING"]

    wait_until(lambda: bool(running()), seconds=300, what="a running job")
    (name,) = running()
    project.execute("user-node", "csctl", "cancel", "job", name)
    said, _ = client.communicate(timeout=300)
    assert client.returncode != 0, said

    def phase() -> str:
        (found,) = [job for job in jobs(project) if job["meta"]["name"] == name]
        return str(status_of(found)["phase"])

    wait_until(lambda: phase() == "CANCELLED", seconds=60, what="the end of the job", seen=phase)
    table = project.execute("user-node", "csctl", "get", "cluster")
    assert table.count("Idle") == 2, table


def test_containers_have_no_more_rights_than_they_need(project: Compose, engine: Engine) -> None:
    for container in engine.docker("ps", "-q", "--filter", project.label).split():
        (facts,) = json.loads(engine.docker("inspect", container))
        name = facts["Name"]
        assert facts["HostConfig"]["ReadonlyRootfs"], name
        assert facts["HostConfig"]["CapDrop"] == ["ALL"], name
        assert "no-new-privileges:true" in facts["HostConfig"]["SecurityOpt"], name
        assert facts["Config"]["User"].split(":")[0] not in ("", "0", "root"), name


def test_users_see_the_appliance_and_nothing_behind_it(project: Compose) -> None:
    # The engine knows its names at once; what it does not know it asks the machine's resolver for.
    find = "RES_OPTIONS='timeout:2 attempts:1' getent hosts {} || echo unknown"
    for hidden in ("database", "prometheus"):
        answer = project.execute("user-node", "sh", "-c", find.format(hidden))
        assert answer.strip() == "unknown"
    assert "unknown" not in project.execute("user-node", "sh", "-c", find.format("management"))


def test_input_nodes_and_systems_hold_neither_the_database_s_password_nor_keys_of_tls(
    project: Compose,
) -> None:
    secrets, tls = "/var/lib/wsc-secrets/*", "/var/lib/wsc/wafer-appliance/tls/*"
    for service, hidden in (
        ("input", f"{secrets} {tls}"),
        ("csx", f"{secrets} {tls}"),
        ("coordinators", secrets),
    ):
        found = project.execute(service, "sh", "-c", f"cat {hidden} || echo no more")
        assert found == "no more\n", service


def test_users_and_prometheus_do_not_see_each_other_s_token(project: Compose) -> None:
    find = "find /var/lib -name '*.token' -type f 2>/dev/null || true"  # not every directory opens
    assert project.execute("user-node", "sh", "-c", find) == "/var/lib/wsc-handout/user.token\n"
    mounts = project.execute("prometheus", "cat", "/proc/self/mounts")
    assert "/var/lib/wsc-scrape" in mounts
    assert "/var/lib/wsc-handout" not in mounts


def test_the_one_port_leads_browsers_to_the_dashboard(project: Compose, port: int) -> None:
    authority = project.execute("user-node", "cat", "/var/lib/wsc-handout/ca.pem")
    context = ssl.create_default_context(cadata=authority)
    with urllib.request.urlopen(f"https://localhost:{port}/healthz", context=context) as answer:
        assert json.load(answer) == {"status": "ok"}


def test_prometheus_counts_the_systems(project: Compose) -> None:
    url = "http://prometheus:9090/api/v1/query?query=sum(wsc_cluster_system_up)"
    ask = f"import urllib.request as r; print(r.urlopen('{url}').read().decode())"

    def count() -> str:
        found = json.loads(project.execute("management", "python", "-c", ask))["data"]["result"]
        return found[0]["value"][1] if found else ""

    wait_until(lambda: count() == "2", seconds=60, what="2 systems in Prometheus", seen=count)


RUN_SECONDS = 900


@pytest.fixture(scope="session")
def runs_token(project: Compose) -> str:
    """A token of the nodes' own user, who alone may have detached runs here."""
    return project.nodes_token()


def as_nodes_user(project: Compose, token: str, command: str) -> str:
    """Run a command on the user node as the nodes' user and return what it prints."""
    return project.run(
        *("exec", "-T", "--user", f"{NODES_UID}:{NODES_UID}", "--env", f"CSAUTH_TOKEN={token}"),
        *("user-node", "sh", "-c", command),
        timeout_seconds=RUN_SECONDS,
    )


def submit(project: Compose, token: str, *command: str) -> str:
    """Submit a detached run and return what it prints, to its end."""
    words = f"cd /home/user/run && csctl submit --attach -- {' '.join(command)} 2>&1 || true"
    return as_nodes_user(project, token, words)


def test_a_detached_run_trains_in_the_container_of_its_node(
    project: Compose, runs_token: str
) -> None:
    """With the client, ping and curl of the image, and a directory that it may write to."""
    copy = "mkdir ~/run && chmod 0777 ~/run && cp /opt/examples/gpt/* ~/run"
    project.execute("user-node", "sh", "-c", copy)
    said = submit(project, runs_token, "python", "train_gpt.py", *TRAINING)
    assert "train step=6 loss=" in said, said
    drivers = [job for job in jobs(project) if job["spec"]["type"] == "driver"]
    assert [status_of(job)["phase"] for job in drivers] == ["SUCCEEDED"]


def test_a_detached_run_that_fails_says_so_shortly_and_keeps_its_token(
    project: Compose, runs_token: str
) -> None:
    script = "import os; raise SystemExit('no such thing: ' + os.environ['CSAUTH_TOKEN'])"
    place = "mkdir -p ~/run && cat > ~/run/fails.py"
    project.feed("user-node", "sh", "-c", place, text=script)
    said = submit(project, runs_token, "python", "fails.py")
    (job,) = [
        each
        for each in jobs(project)
        if each["spec"]["type"] == "driver" and status_of(each)["phase"] == "FAILED"
    ]
    logs = as_nodes_user(project, runs_token, f"csctl logs {job['meta']['name']}")
    assert "no such thing: [redacted]" in said, said
    for text in (said, logs, json.dumps(job)):
        assert "eyJ" not in text
    assert len(str(status_of(job).get("message", ""))) < 400
