"""`helm test` on an installation that works, and on ones that do not.

Helm 3 and 4, kubectl, the API server, management, the pods' programs and the client are real. The
scheduler and the kubelets are played. The script trains as a user that is not root, in an
environment that is open to everybody.
"""

import os
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from appliance.cluster.kubernetes.hooks.trial import Driver, run_driver
from appliance.cluster.kubernetes.object_kinds import CONFIG_MAP, POD, WSJOB, name_of
from appliance.core.errors import ClusterError
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
def _nodes(kube, admin, installed, home, *, capacity=1000, words=None):
    """Play the cluster's nodes; yield what pods have printed.

    Args:
        capacity: Pods of jobs that find room.
        words: What the program of the test has to say otherwise.
    """
    with ExitStack() as stack:
        enter = stack.enter_context(open_to_all())
        told = lambda: words_here(installed, **(words or {}))  # noqa: E731
        pods = PlayedPods(kube, admin.namespace, told, home / "pods", ("--uid", UID))
        stack.enter_context(pods)
        directory = home / "kubelet"
        played = FakeNodes(admin, directory=directory, enter=enter, capacity=capacity)
        stack.enter_context(played)
        yield pods


@pytest.fixture(scope="module")
def nodes(kube, admin, installed, home):
    """Return what plays the cluster's nodes."""
    return partial(_nodes, kube, admin, installed, home)


@pytest.fixture(scope="module")
def why(installed, home):
    """Return what tells all that is known of a Helm's end."""
    return partial(_why, installed, home)


def _why(installed, home, done):
    found = (*home.glob("kubelet/*/output"), *home.rglob("streamer*.log"))
    logs = [f"== {path}\n{path.read_text()[-2000:]}" for path in sorted(found)]
    return "\n".join((done.stdout, done.stderr, installed.logs(), *logs))


def drivers(admin):
    return [name_of(each) for each in admin.list(WSJOB)[0] if each["spec"]["type"] == "driver"]


@pytest.mark.parametrize("program", ["helm", "helm4"])
def test_losses_are_those_of_pytorch(admin, nodes, helm, why, program):
    before = drivers(admin)
    with nodes():
        done = helm(program, "test", RELEASE, "--logs", "--timeout", "9m")
    assert done.returncode == 0, why(done)
    assert done.stdout.rstrip().endswith(
        "The installation works. What a user trains on it has the losses that PyTorch computes."
    )
    assert done.stdout.count("TEST SUITE") == 1, "only the pod is a test"
    assert drivers(admin) == before, "one that has succeeded goes"
    assert admin.find(POD, f"{NAME}-test"), "its log stays"


def test_a_loss_that_differs_is_told(nodes, helm, why):
    """The script compares as it does; what it compares needs no client and no further job."""
    wrong = TRAINING
    for words, instead in (
        ("import cerebras.pytorch as cstorch\n", ""),
        (
            "losses_of_pytorch(), losses_of_the_appliance()",
            "losses_of_pytorch(), [2 * loss for loss in losses_of_pytorch()]",
        ),
    ):
        assert wrong.count(words) == 1
        wrong = wrong.replace(words, instead)
    with nodes(words={TRAINING: wrong}):
        done = helm("helm", "test", RELEASE, "--logs", "--timeout", "9m")
    assert done.returncode != 0
    assert "is FAILED: " in done.stdout, why(done)
    assert "does not compute what PyTorch does: losses 1.08638 0.94047" in done.stdout


class PatienceUntil:
    """A clock by which no time goes by before something is so, and then more than anybody has."""

    def __init__(self, is_so):
        self._is_so = is_so

    def monotonic_seconds(self):
        return 1e9 if self._is_so() else 0.0


def test_what_the_script_waits_for_is_told_when_it_is_late(kube, admin, nodes):
    """There is room for the driver's pod and no other."""
    account = kube.as_account(admin.namespace, account_token(admin, f"{NAME}-helm-test"))
    driver = Driver(name="late", command=("python", "-c", TRAINING), uid=int(UID))
    full = "Too many pods (1)"

    def is_told():
        found = [(each.get("status") or {}).get("message", "") for each in admin.list(WSJOB)[0]]
        return any(full in message for message in found)

    with (
        nodes(capacity=1),
        pytest.raises(ClusterError) as late,
    ):
        list(run_driver(account, driver, PatienceUntil(is_told), patience_seconds=270.0))
    assert "The wsjob late is RUNNING after 270 seconds: " in str(late.value)
    assert "its compile job wsjob-" in str(late.value)
    assert full in str(late.value)
    left = admin.find(WSJOB, "late")
    assert left["spec"]["ttlSecondsAfterFinished"] == 86400
    with nodes():
        admin.delete(WSJOB, "late")
        wait_until(lambda: admin.find(WSJOB, "late") is None, seconds=120, what="the driver's end")


def test_a_port_that_does_not_answer_is_told(nodes, helm):
    """No driver is submitted then."""
    with nodes(words={f"{NAME}:9001/": "localhost:1/"}):
        done = helm("helm", "test", RELEASE, "--logs", "--timeout", "9m")
    assert done.returncode != 0
    assert "https://localhost:1/healthz does not answer: " in done.stdout
    assert "wsjob" not in done.stdout
