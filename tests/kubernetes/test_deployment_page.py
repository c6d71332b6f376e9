"""What docs/deployment.md tells to type for Kubernetes is typed, on one installation.

helm, kubectl, the API server, management, the pods' programs and the client are real. Controllers,
Kueue and kubelets are played, and `kubectl exec` runs a command of this machine: where management
is, and where the user is.
"""

import json
import os
import pwd
import shutil
import ssl
import stat
import subprocess
import sys
import tempfile
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from appliance.cluster.kubernetes.object_kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    LEASE,
    POD,
    SECRET,
    SERVICE_ACCOUNT,
    WSCSYSTEM,
    WSJOB,
    Kind,
    name_of,
)
from tests.kubernetes.test_chart_certificates import JobRunner
from tests.support.client import client_venv
from tests.support.fake_kueue import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    FakeKueue,
    install_kueue,
    is_true,
)
from tests.support.fake_nodes import NODE, ROOT, FakeNodes
from tests.support.kube_appliance import KubeAppliance
from tests.support.kube_server import CHART, TOOLS
from tests.support.pages import Terminal, block_of, commands_of
from tests.support.played_controllers import CLAIM, PlayedControllers
from tests.support.played_pods import PlayedPods
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow]

SMALL = "--seq-len 32 --batch-size 4 --eval-steps 0"
NAME = "wafer-wsc-appliance"
TRAINING = (CHART / "files/helm-test/train.py").read_text()
UID = ("--uid", "1000")
"""Of whom `helm test` is here; in a cluster that of its pod."""

QUOTA = Kind(group="", version="v1", plural="resourcequotas", name="ResourceQuota")
NODES = {"wafer-node-1": "127.0.0.1", "wafer-node-2": "127.0.0.2"}
DRIVER = yaml.safe_load((ROOT / "examples" / "wsjob.yaml").read_text())
KUBECTL = """#!/bin/bash
# `exec` needs kubelets: the command runs here, where its pod's program is.
if [ "$1 $3" = "-n exec" ]; then
    target=$4; shift 5
    exec "{bin}/in-${{target##*/}}" "$@"
fi
exec "{tools}/kubectl" "$@"
"""
IN_MANAGEMENT = """#!/bin/bash
export XDG_DATA_HOME="{data}"
exec "$@"
"""
IN_USER_NODE = """#!/bin/bash
# The pod mounts the Secret `user`.
cd "{home}"
for key in user.token config_v2; do
    part="jsonpath={{.data.${{key/./\\\\.}}}}"
    "{tools}/kubectl" -n wafer get secret user -o "$part" | base64 -d > "$key"
done
export HOME="{home}/user" CSCONFIG_PATH="{home}/config_v2" CSAUTH_TOKEN="$(cat user.token)"
cd
export PATH="{client}/bin:{bin}:/usr/bin:/bin"
unset KUBECONFIG PYTHONPATH
exec "$@"
"""


@pytest.fixture(scope="module")
def home():
    """A home that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="k") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture(scope="module")
def cluster(kube):
    admin = kube.admin()
    for node in NODES:
        admin.create(NODE, {"metadata": {"name": node}})
    for namespace in ("wafer", "team-research"):
        admin._call("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
        kube.admin(namespace).create(SERVICE_ACCOUNT, {"metadata": {"name": "default"}})
    yield kube
    for node in NODES:
        admin.delete(NODE, node)


@pytest.fixture(scope="module")
def appliance(home):
    path = f"{client_venv()}/bin:/usr/bin:/bin"
    appliance = KubeAppliance(
        home / "data" / "wafer",
        home / "kubeconfig",
        lease_seconds=600.0,  # as nobody restarts a management that ends
        settings={"userPath": path},
        arguments=("--tokens",),
    )
    (home / "data" / "wafer-appliance").symlink_to(appliance.data_dir)
    appliance.start_proxy()
    yield appliance
    appliance.close()


@pytest.fixture(scope="module")
def played(cluster, appliance, home):
    """Everything of a cluster that is not the API server's."""
    admins = [cluster.admin(name) for name in ("wafer", "team-research")]
    kubelets = [
        FakeNodes(admin, addresses=NODES, directory=home / f"kubelet-{admin.namespace}")
        for admin in admins
    ]
    (home / "jobs").mkdir()
    with (
        JobRunner(cluster, "wafer", home / "jobs").running() as hooks,
        kubelets[0],
        kubelets[1],
        PlayedPods(
            *(cluster, "wafer", lambda: helm_test_words(appliance), home / "pods"), further=UID
        ) as pods,
        PlayedControllers(
            *(cluster, "wafer", "team-research", appliance, home / "kubeconfig"),
            name=NAME,
            take_settings=True,
        ),
    ):
        yield kubelets, hooks, pods


def helm_test_words(appliance):
    """Return what the program of `helm test` has to say otherwise here."""
    (authority,) = appliance.data_dir.rglob("ca.pem")
    return {
        # Here the client is root's alone; test_helm_test.py lets others have it.
        "--command=python": "--command=/usr/bin/python3",
        TRAINING: "print('it computes')",
        "/etc/wsc/tls/ca.crt": str(authority),
        f"{NAME}:9000/": f"localhost:{appliance.public_port}/",
        f"{NAME}:9001/": f"localhost:{appliance.rest_port}/",
    }


class Reader:
    """Somebody who types the commands of the page.

    Args:
        home: Where.
        kube: The cluster.
        appliance: What is installed there.
    """

    def __init__(self, home, kube, appliance):
        self._home, self._kube, self._appliance = home, kube, appliance
        words = {
            "bin": home / "bin",
            "tools": TOOLS,
            "data": home / "data",
            "home": home,
            "client": client_venv(),
        }
        self._programs = {
            "kubectl": KUBECTL,
            f"in-{NAME}": IN_MANAGEMENT,
            "in-user-node": IN_USER_NODE,
        }
        self._programs = {name: text.format(**words) for name, text in self._programs.items()}
        (home / "user").mkdir()
        for name in ("helm", "deploy", "examples"):
            (home / name).symlink_to(ROOT / name)

    def types(self, block, replaced=None):
        """Type the commands of a block; what is replaced must occur there."""
        shutil.rmtree(self._home / "bin", ignore_errors=True)
        variables = {
            "KUBECONFIG": str(self._kube.kubeconfig),
            "CSCONFIG_PATH": str(self._appliance.appliance.config_path),
            "CSAUTH_TOKEN": self.administrator,
        }
        terminal = Terminal(
            self._home, variables=variables, replaced=replaced, first_on_path=TOOLS, seconds=900
        )
        for name, text in self._programs.items():
            program = self._home / "bin" / name
            program.write_text(text)
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        try:
            terminal.follow(commands_of(block))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._appliance.logs()}") from error
        finally:
            terminal.close()

    @property
    def administrator(self):
        """The token of whom the page makes an account; empty before."""
        token = self._home / "token"
        return token.read_text().strip() if token.exists() else ""

    def csctl(self, *arguments):
        """Return what csctl answers the administrator."""
        config = str(self._appliance.appliance.config_path)
        return subprocess.run(
            [sys.executable, "-m", "csctl", *arguments],
            env={**os.environ, "CSCONFIG_PATH": config, "CSAUTH_TOKEN": self.administrator},
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        ).stdout

    def rest(self, path):
        """Return what REST answers the administrator."""
        (authority,) = self._appliance.data_dir.rglob("ca.pem")
        url = f"https://localhost:{self._appliance.rest_port}{path}"
        request = urllib.request.Request(
            url, headers={"Authorization": f"Bearer {self.administrator}"}
        )
        context = ssl.create_default_context(cafile=str(authority))
        with urllib.request.urlopen(request, context=context) as answer:
            return json.load(answer)


@pytest.fixture(scope="module")
def reader(home, cluster, appliance, played):
    """Somebody who has installed the appliance."""
    reader = Reader(home, cluster, appliance)
    reader.types(block_of("docs/deployment.md", "$ helm install"))
    return reader


def run_script(cluster, namespace, script, **fields):
    """Create the wsjob that the page calls my-run, in place of an earlier one.

    `fields` are further ones of its spec.
    """
    cluster.kubectl("delete", "wsjob", "my-run", "--ignore-not-found", namespace=namespace)
    driver = {"workingDir": "/", "command": ["/bin/sh", "-c", script]}
    spec = {**DRIVER["spec"], "driver": driver, **fields}
    document = {**DRIVER, "metadata": {"name": "my-run"}, "spec": spec}
    cluster.kubectl("apply", "-f", "-", namespace=namespace, given=yaml.safe_dump(document))


def wait_for(cluster, namespace, condition):
    words = ("wait", f"--for=condition={condition}", "wsjob/my-run", "--timeout=240s")
    try:
        cluster.kubectl(*words, namespace=namespace)
    except AssertionError as error:
        seen = cluster.kubectl("describe", "wsjob", "my-run", namespace=namespace)
        raise AssertionError(f"{error}\n{seen}") from error


def test_users_train_and_sessions_have_namespaces_of_their_own(reader, cluster, home):
    me = pwd.getpwuid(os.getuid())
    account = f"create {me.pw_name} --uid {me.pw_uid} --role cluster-admin"
    user = {"create user --uid 1000 --gid 1000": account}
    short = {"--steps 60": f"--steps 4 {SMALL}"}
    here = {"/var/lib/wsc/": f"{home}/data/", "/opt/examples": str(ROOT / "examples")}
    reader.types(block_of("docs/deployment.md", "$ appliance="), {**user, **here, **short})
    reader.types(block_of("docs/deployment.md", "$ kubectl -n wafer exec user-node"), short)
    watch_jobs_with_kubectl(reader, cluster)
    give_a_session_a_namespace(reader, cluster)


def watch_jobs_with_kubectl(reader, cluster):
    run_script(cluster, "wafer", "true")
    reader.types(block_of("docs/deployment.md", "$ kubectl -n wafer wait --for"))
    run_script(cluster, "wafer", "sleep 600")
    wait_for(cluster, "wafer", "Running")
    reader.types(block_of("docs/deployment.md", "$ kubectl -n wafer patch wsjob"))
    cluster.kubectl("delete", "wsjob", "my-run", namespace="wafer")


def give_a_session_a_namespace(reader, cluster):
    reader.types(block_of("docs/deployment.md", "$ kubectl apply -f examples/team"))
    quota = cluster.admin("team-research").find(QUOTA, "team-research")
    hard = quota["spec"]["hard"]
    counted = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
    cluster.admin("team-research").patch(QUOTA, "team-research", counted, subresource="status")
    run_script(cluster, "team-research", "true")
    wait_for(cluster, "team-research", "Complete")
    listed = json.loads(reader.csctl("get", "jobs", "-a", "-A", "-o", "json"))["items"]
    (job,) = [each for each in listed if each["meta"]["namespace"] == "research"]
    assert job["meta"]["properties"]["namespace"] == "team-research"
    name = job["meta"]["name"]
    assert "Namespace: team-research" in reader.csctl("get", "job", name)
    assert reader.rest(f"/api/v1/jobs/{name}")["namespace"] == "team-research"


def test_an_administrator_queues_by_kueue_drains_and_uninstalls(reader, cluster, played):
    """The last one here: nothing is left of what the tests of this file have installed."""
    (kubelet, _), *_ = played
    bring_definitions_up_to_date(reader, cluster.admin())
    with queue_jobs_by_kueue(reader, cluster):
        drain_a_node(reader, cluster, kubelet)
        uninstall(reader, cluster)


def bring_definitions_up_to_date(reader, admin):
    name = "wsjobs.wsc.open-appliance.org"
    (version,) = admin.find(CUSTOM_RESOURCE_DEFINITION, name)["spec"]["versions"]
    older = {"spec": {"versions": [{**version, "additionalPrinterColumns": []}]}}
    admin.patch(CUSTOM_RESOURCE_DEFINITION, name, older)
    reader.types(block_of("docs/deployment.md", "$ kubectl apply --server-side"))
    (found,) = admin.find(CUSTOM_RESOURCE_DEFINITION, name)["spec"]["versions"]
    assert found == without_rules(version)  # as the page says of these files


def without_rules(schema):
    """Return a definition, or a part of it, without the rules that servers since 1.25 know."""
    if isinstance(schema, list):
        return [without_rules(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: part for name, part in schema.items() if name != "x-kubernetes-validations"}
    return {name: without_rules(part) for name, part in kept.items()}


@contextmanager
def queue_jobs_by_kueue(reader, cluster):
    install_kueue(cluster.admin())
    reader.types(block_of("docs/deployment.md", "$ kubectl -n wafer apply -f examples/kueue"))
    admin = cluster.admin("wafer")
    with FakeKueue(admin, num_systems=quota_of(admin)) as kueue:
        # Jobs of ada, whose this is, go to another namespace unless they name a session.
        run_script(cluster, "wafer", "sleep 600", session="job-operator")
        wait_for(cluster, "wafer", "Running")
        job = admin.find(WSJOB, "my-run")["status"]["job"]
        assert kueue.find(job)["spec"]["queueName"] == "wafers"
        assert is_true(kueue.find(job), "Admitted")
        yield


def quota_of(admin):
    """Return how many systems the queue of the page lets jobs have."""
    queue = admin.find(LOCAL_QUEUE, "wafers")
    (group,) = admin.find(CLUSTER_QUEUE, queue["spec"]["clusterQueue"])["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]
    quotas = {each["name"]: each["nominalQuota"] for each in flavor["resources"]}
    return int(quotas["wsc.open-appliance.org/systems"])


def drain_a_node(reader, cluster, kubelet):
    admin = cluster.admin("wafer")
    pod = f"{admin.find(WSJOB, 'my-run')['status']['job']}-driver-0"
    wait_started(cluster, kubelet, pod, times=1)
    node = admin.find(POD, pod)["spec"]["nodeName"]
    reader.types(block_of("docs/deployment.md", "$ helm upgrade wafer"), {"NODE": node})
    wait_started(cluster, kubelet, pod, times=2)
    assert admin.find(POD, pod)["spec"]["nodeName"] != node
    wait_for(cluster, "wafer", "Running")


def wait_started(cluster, kubelet, pod, *, times):
    wait_until(
        lambda: kubelet.started.count(pod) == times,
        seconds=240,
        what=f"start {times} of the script",
        seen=lambda: cluster.kubectl("describe", "wsjob", "my-run", namespace="wafer"),
    )


def uninstall(reader, cluster):
    reader.types(block_of("docs/deployment.md", "$ helm uninstall"))
    own, team = cluster.admin("wafer"), cluster.admin("team-research")
    left = [*own.list(WSCSYSTEM)[0], *own.list(LEASE)[0], *own.list(WSJOB)[0], *team.list(WSJOB)[0]]
    left += [each for kind in (SECRET, CLAIM) for each in own.list(kind)[0] if is_released(each)]
    assert [name_of(each) for each in left] == []


def is_released(found):
    """Whether an object is of the release that the page calls wafer."""
    return (found["metadata"].get("labels") or {}).get("app.kubernetes.io/instance") == "wafer"
