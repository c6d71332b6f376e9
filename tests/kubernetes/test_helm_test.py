"""`helm test` on an installation that works, and on ones that do not.

Helm 3 and 4, kubectl, the API server, management, the pods' programs and the client are real. The
scheduler and the kubelets are played. The script trains as a user that is not root, in an
environment that is open to everybody.
"""

import os
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from appliance.cluster.kubernetes.object_kinds import CONFIG_MAP, POD, WSJOB
from tests.kubernetes.test_helm import NAME, RELEASE, VALUES
from tests.support.client import client_path
from tests.support.fake_nodes import FakeNodes
from tests.support.kube_appliance import KubeAppliance
from tests.support.kube_server import CHART, account_token, find_tool, new_namespace
from tests.support.played_pods import PlayedPods
from tests.support.two_users import open_to_all
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow]

UID = "12345"
TRAINING = (CHART / "files/helm-test/train.py").read_text()


@pytest.fixture(scope="module")
def admin(kube):
    server = kube.admin()
    namespace = new_namespace(server)
    yield kube.admin(namespace)
    server._call("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.fixture(scope="module")
def home():
    """A directory that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="h") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture(scope="module")
def helm(kube, admin, home):
    """Return a function that runs a Helm in the release's namespace, whatever becomes of it."""

    def run(program, *arguments):
        words = (find_tool(program), *arguments, "--kubeconfig", str(kube.kubeconfig))
        return subprocess.run(
            [*words, "--namespace", admin.namespace],
            env={**os.environ, "HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    return run


@pytest.fixture(scope="module")
def installed(kube, admin, helm, home):
    """A management with the settings and the account that the chart has made."""
    sets = [part for value in VALUES for part in ("--set", value)]
    done = helm("helm", "install", RELEASE, str(CHART), *sets)
    assert done.returncode == 0, done.stderr
    config = kube.write_kubeconfig(home / "account", account_token(admin, NAME), admin.namespace)
    path = f"{client_path()}:/usr/bin:/bin"
    (home / "run").mkdir()
    (home / "run").chmod(0o777)
    settings = {"userPath": path, "runtimeRoot": str(home / "run")}
    appliance = KubeAppliance(home / "appliance", config, lease_seconds=60.0, settings=settings)
    appliance.take_settings(admin.find(CONFIG_MAP, f"{NAME}-jobs")["data"]["settings.yaml"])
    appliance.start_proxy()
    appliance.start_replica()
    try:
        wait_until(appliance.leader_pid, seconds=120, what="a leader", seen=appliance.logs)
        appliance.data_dir.chmod(0o711)  # a cluster's pods mount what is their job's alone
        yield appliance
    finally:
        appliance.close()


def words_here(appliance, **others):
    """Return what the pod's program has to say otherwise on this machine."""
    (authority,) = appliance.data_dir.rglob("ca.pem")
    return {
        "/etc/wsc/tls/ca.crt": str(authority),
        f"{NAME}:9000/": f"localhost:{appliance.public_port}/",
        f"{NAME}:9001/": f"localhost:{appliance.rest_port}/",
        **others,
    }


@contextmanager
def nodes(kube, admin, installed, home, *, further=(), capacity=1000, words=None):
    """Play the cluster's nodes; yield what pods have printed."""
    with ExitStack() as stack:
        enter = stack.enter_context(open_to_all())
        told = lambda: words_here(installed, **(words or {}))  # noqa: E731
        further = ("--uid", UID, *further)
        pods = PlayedPods(kube, admin.namespace, told, home / "pods", further)
        stack.enter_context(pods)
        directory = home / "kubelet"
        played = FakeNodes(admin, directory=directory, enter=enter, capacity=capacity)
        stack.enter_context(played)
        yield pods


def why(installed, home, done):
    found = (*home.glob("kubelet/*/output"), *home.rglob("streamer*.log"))
    logs = [f"== {path}\n{path.read_text()[-2000:]}" for path in sorted(found)]
    return "\n".join((done.stdout, done.stderr, installed.logs(), *logs))


def test_helm_4_shows_that_losses_are_those_of_pytorch(kube, admin, installed, helm, home):
    with nodes(kube, admin, installed, home):
        done = helm("helm4", "test", RELEASE, "--logs", "--timeout", "9m")
    assert done.returncode == 0, why(installed, home, done)
    assert done.stdout.rstrip().endswith(" the losses that PyTorch computes.")
    assert done.stdout.count("TEST SUITE") == 1, "only the pod is a test"
    assert not [each for each in admin.list(WSJOB)[0] if each["status"]["type"] == "driver"]
    assert admin.find(POD, f"{NAME}-test"), "its log stays"


def test_helm_3_says_that_all_is_well(kube, admin, installed, helm, home):
    """It makes the same pod, which trains for Helm 4 above and for Helm 3 below."""
    with nodes(kube, admin, installed, home, further=("--wsjob", "")):
        done = helm("helm", "test", RELEASE, "--logs", "--timeout", "9m")
    assert done.returncode == 0, why(installed, home, done)
    assert "The installation works." in done.stdout
    assert done.stdout.count("TEST SUITE") == 1, "only the pod is a test"
    assert admin.find(POD, f"{NAME}-test"), "its log stays"


def test_helm_3_tells_of_a_loss_that_differs(kube, admin, installed, helm, home):
    wrong = TRAINING.replace("losses.append(loss.item())", "losses.append(2 * loss.item())", 1)
    assert wrong != TRAINING
    with nodes(kube, admin, installed, home, words={TRAINING: wrong}):
        done = helm("helm", "test", RELEASE, "--logs", "--timeout", "9m")
    assert done.returncode != 0
    assert "is FAILED: " in done.stdout, why(installed, home, done)
    assert "the appliance does not compute what PyTorch does: losses 0.54319" in done.stdout


def test_what_the_script_waits_for_is_told_when_it_is_late(kube, admin, installed, helm, home):
    """There is room for the test's pod, the driver's and no other."""
    late = ("--patience-seconds", "45")
    with nodes(kube, admin, installed, home, further=late, capacity=2):
        done = helm("helm4", "test", RELEASE, "--logs", "--timeout", "9m")
        left = [each for each in admin.list(WSJOB)[0] if each["spec"]["type"] == "driver"]
        for each in left:
            admin.delete(WSJOB, each["metadata"]["name"])
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "is RUNNING after 45 seconds: " in said, why(installed, home, done)
    assert "its compile job wsjob-" in said
    assert "Too many pods (2)" in said
    assert left[0]["spec"]["ttlSecondsAfterFinished"] == 86400


def test_a_port_that_does_not_answer_is_told(kube, admin, installed, helm, home):
    """No driver is submitted then."""
    with nodes(kube, admin, installed, home, words={f"{NAME}:9001/": "localhost:1/"}):
        done = helm("helm", "test", RELEASE, "--logs", "--timeout", "9m")
    assert done.returncode != 0
    assert "https://localhost:1/healthz does not answer: " in done.stdout
    assert "wsjob" not in done.stdout
