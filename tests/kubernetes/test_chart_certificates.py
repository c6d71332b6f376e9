"""The jobs of the chart, run as helm has them made: certificates come, stay and are renewed.

No controller runs there, so this test stands for the one that runs Jobs: it runs what a hook's pod
would run, with the rights of its service account, and says how it ended.
"""

import base64
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from appliance.cluster.kubernetes.object_kinds import CUSTOM_RESOURCE_DEFINITION, WSJOB
from tests.support.helm import CHART, ROOT, Helm
from tests.support.kube_server import KubeServer, find_tool, new_namespace
from tests.support.played_controllers import ended_job
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

RELEASE = "wafer"
NAME = f"{RELEASE}-wsc-appliance"


class JobRunner:
    """Runs the Jobs of a namespace, one after the other.

    Args:
        kube: The cluster.
        namespace: The namespace.
        directory: For kubeconfigs.
    """

    def __init__(self, kube: KubeServer, namespace: str, directory: Path) -> None:
        self._kube, self._namespace, self._directory = kube, namespace, directory
        self._admin = kube.admin(namespace)
        self.ran: list[str] = []
        self.output: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def running(self) -> Iterator["JobRunner"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join()

    def _run(self) -> None:
        jobs = f"/apis/batch/v1/namespaces/{self._namespace}/jobs"
        while not self._stop.wait(0.5):
            for job in self._admin._call("GET", jobs)["items"]:
                if not job.get("status", {}).get("conditions"):
                    self._finish(f"{jobs}/{job['metadata']['name']}/status", job)

    def _finish(self, path: str, job: dict[str, Any]) -> None:
        spec = job["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        # The image's entry point is `appliance`, which loads what the one command needs.
        program = container.get("command", ["python", "-m", "appliance.start"])[1:]
        kubeconfig = self._directory / f"{job['metadata']['name']}.kubeconfig"
        token = self._token(spec["serviceAccountName"])
        self._kube.write_kubeconfig(kubeconfig, token, self._namespace)
        mounted = self._mount(spec, container)
        done = subprocess.run(
            [sys.executable, *program, *(mounted.get(each, each) for each in container["args"])],
            cwd=ROOT,
            env=os.environ | {"KUBECONFIG": str(kubeconfig), "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        self.ran.append(job["metadata"]["name"])
        self.output.append(done.stdout + done.stderr)
        status = ended_job(succeeded=done.returncode == 0, message=done.stderr)
        merge = "application/merge-patch+json"
        self._admin._call("PATCH", path, body={"status": status}, content_type=merge)

    def _mount(self, spec: dict[str, Any], container: dict[str, Any]) -> dict[str, str]:
        """Write the ConfigMaps that a container mounts; return where, by its mount paths."""
        volumes = {each["name"]: each for each in spec.get("volumes", ())}
        mounted = {}
        for mount in container.get("volumeMounts", ()):
            volume = volumes[mount["name"]]
            if "configMap" not in volume:
                continue
            name = volume["configMap"]["name"]
            path = f"/api/v1/namespaces/{self._namespace}/configmaps/{name}"
            directory = self._directory / name
            directory.mkdir(exist_ok=True)
            for file, text in self._admin._call("GET", path)["data"].items():
                (directory / file).write_text(text)
            mounted[mount["mountPath"]] = str(directory)
        return mounted

    def _token(self, account: str) -> str:
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token"
        body = {"spec": {"audiences": ["https://kubernetes.default.svc"]}}
        token: str = self._admin._call("POST", path, body=body)["status"]["token"]
        return token


@pytest.fixture
def namespace(kube: KubeServer) -> Iterator[str]:
    admin = kube.admin()
    name = new_namespace(admin)
    yield name
    admin._call("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def jobs(kube: KubeServer, namespace: str, tmp_path: Path) -> Iterator[JobRunner]:
    with JobRunner(kube, namespace, tmp_path).running() as runner:
        yield runner


def names(kube: KubeServer, namespace: str, kinds: str) -> set[str]:
    found = kube.kubectl("get", kinds, "-o", "name", namespace=namespace).split()
    ours = f"app.kubernetes.io/instance={RELEASE}"
    labelled = kube.kubectl("get", kinds, "-l", ours, "-o", "name", namespace=namespace).split()
    return set(found) & set(labelled) | {name for name in found if NAME in name}


def tls_secret(kube: KubeServer, namespace: str) -> dict[str, bytes]:
    path = f"/api/v1/namespaces/{namespace}/secrets/{NAME}-tls"
    data = kube.admin(namespace)._call("GET", path)["data"]
    return {key: base64.b64decode(text) for key, text in data.items()}


def password(kube: KubeServer, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/secrets/{NAME}-postgresql"
    text: str = kube.admin(namespace)._call("GET", path)["data"]["password"]
    return text


def alternative_names(certificate: bytes) -> set[str]:
    found = x509.load_pem_x509_certificate(certificate).extensions
    names = found.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(names.get_values_for_type(x509.DNSName))


def test_certificates_last_as_long_as_they_will_do_and_survive_a_reinstallation(
    kube: KubeServer, namespace: str, jobs: JobRunner, tmp_path: Path
) -> None:
    program = find_tool("helm")
    assert program
    helm = Helm(Path(program), home=tmp_path / "helm", kubeconfig=kube.kubeconfig)

    def run(*arguments: str) -> None:
        done = helm.run(*arguments, "--namespace", namespace, timeout_seconds=300)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}{jobs.output}"

    run("install", RELEASE, str(CHART), "--set", "management.replicas=2")
    deployed = names(kube, namespace, "deployments,statefulsets,services,roles,configmaps,pdb")
    assert {
        f"deployment.apps/{NAME}",
        f"service/{NAME}",
        f"configmap/{NAME}-jobs",
    } <= deployed
    made = tls_secret(kube, namespace)
    assert f"{NAME}.{namespace}.svc" in alternative_names(made["tls.crt"])
    first_password = password(kube, namespace)

    run("upgrade", RELEASE, str(CHART), "--set", "management.replicas=3")
    assert tls_secret(kube, namespace) == made  # clients hold its authority
    assert password(kube, namespace) == first_password
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{NAME}"
    assert kube.admin(namespace)._call("GET", path)["spec"]["replicas"] == 3

    run("upgrade", RELEASE, str(CHART), "--set", "service.publicName=wafer.example.org")
    renewed = tls_secret(kube, namespace)["tls.crt"]
    assert "wafer.example.org" in alternative_names(renewed)

    run("uninstall", RELEASE)
    assert jobs.ran == [
        *[f"{NAME}-crds", f"{NAME}-make-tls", f"{NAME}-password"] * 3,
        f"{NAME}-end-jobs",
    ]
    kinds = "deployments,statefulsets,services,roles,rolebindings,serviceaccounts,configmaps"
    kinds += ",secrets,pdb,networkpolicies,jobs,persistentvolumeclaims"
    # No controller collects what hooks own there; the data and what opens it are kept on purpose.
    kept = {f"persistentvolumeclaim/{NAME}-data"}
    kept |= {f"secret/{NAME}-postgresql", f"secret/{NAME}-tls"}
    wait_until(
        lambda: names(kube, namespace, kinds) <= kept,
        seconds=120,
        what="the end of all objects",
        seen=lambda: str(names(kube, namespace, kinds)),
    )

    kept_certificates = tls_secret(kube, namespace)
    run("install", RELEASE, str(CHART), "--set", "service.publicName=wafer.example.org")
    assert password(kube, namespace) == first_password
    assert tls_secret(kube, namespace) == kept_certificates  # clients hold its authority


def test_a_password_that_an_earlier_chart_made_survives_the_upgrade_to_this_one(
    kube: KubeServer, namespace: str, jobs: JobRunner, tmp_path: Path
) -> None:
    """That chart had it among its objects; Helm removes what a new one does not have."""
    program = find_tool("helm")
    assert program
    helm = Helm(Path(program), home=tmp_path / "helm", kubeconfig=kube.kubeconfig)
    earlier = tmp_path / "chart"
    shutil.copytree(CHART, earlier)
    secret = yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{NAME}-postgresql"},
            "stringData": {"password": "of an earlier chart"},
        }
    )
    (earlier / "templates/postgresql-password.yaml").write_text(secret)
    for command, chart in (("install", earlier), ("upgrade", CHART)):
        done = helm.run(command, RELEASE, str(chart), "--namespace", namespace)
        assert done.returncode == 0, f"{done.stderr}{jobs.output}"
    assert base64.b64decode(password(kube, namespace)) == b"of an earlier chart"


def test_an_upgrade_brings_definitions_up_to_date_and_leaves_objects_as_they_are(
    kube: KubeServer, namespace: str, jobs: JobRunner, tmp_path: Path
) -> None:
    """Helm alone leaves the definitions of the first install in place."""
    program = find_tool("helm")
    assert program
    helm = Helm(Path(program), home=tmp_path / "helm", kubeconfig=kube.kubeconfig)
    admin = kube.admin(namespace)
    definition = admin.find(CUSTOM_RESOURCE_DEFINITION, "wsjobs.wsc.open-appliance.org")
    assert definition
    fields = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    newest = fields["spec"]["properties"].pop("ttlSecondsAfterFinished")
    earlier = {"spec": definition["spec"]}

    def ttl() -> object:
        now = admin.find(CUSTOM_RESOURCE_DEFINITION, "wsjobs.wsc.open-appliance.org")
        assert now
        schema = now["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        return schema["spec"]["properties"].get("ttlSecondsAfterFinished")

    spec = {"type": "execute", "session": "mine"}
    admin.create(WSJOB, {"metadata": {"name": "kept"}, "spec": spec})
    for command in ("install", "upgrade"):
        admin.patch(CUSTOM_RESOURCE_DEFINITION, "wsjobs.wsc.open-appliance.org", earlier)
        assert ttl() is None
        done = helm.run(command, RELEASE, str(CHART), "--namespace", namespace)
        assert done.returncode == 0, f"{done.stderr}{jobs.output}"
        assert ttl() == newest
    kept = admin.find(WSJOB, "kept")
    assert kept
    assert kept["spec"] == spec
    roles = kube.kubectl("get", "clusterroles", "-o", "name", namespace=namespace).split()
    assert f"clusterrole.rbac.authorization.k8s.io/{namespace}.{NAME}-edit" in roles
    assert not [each for each in roles if each.endswith(f"{namespace}.{NAME}-crds")]
