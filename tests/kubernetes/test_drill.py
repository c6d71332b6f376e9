"""The drill of `deploy/drill.sh`: install, train, drain and upgrade, uninstall, reinstall, train.

Helm 4, kubectl, the API server, management, the pods' programs and the client are real. Controllers
and kubelets are played: hooks run, the Deployment's management is a process of this machine, and a
disruption budget is computed as Kubernetes does. Jobs have a namespace of their own; with one
namespace for all, and with Helm 3, test_deployment_page.py does the same by the page's commands.
`WSC_DRILL_HELM=helm` has Helm 3 here, too.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubernetes.test_chart_certificates import JobRunner
from tests.support.client import client_environment
from tests.support.fake_nodes import NODE, ROOT, FakeNodes
from tests.support.kube_appliance import KubeAppliance
from tests.support.kube_server import TOOLS, find_tool, new_namespace
from tests.support.played_controllers import PlayedControllers

pytestmark = [pytest.mark.client, pytest.mark.slow]

NAME = "drill-wsc-appliance"
ADDRESSES = {"node-1": "127.0.0.1", "node-2": "127.0.0.2"}
LABELS = {"app.kubernetes.io/instance": "drill", "app.kubernetes.io/component": "job"}


@pytest.fixture
def namespace(kube):
    admin = kube.admin()
    name = new_namespace(admin)
    for node in ADDRESSES:
        admin.create(NODE, {"metadata": {"name": node}})
    yield name
    for node in ADDRESSES:
        admin.delete(NODE, node)
    admin._call("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def jobs(kube, namespace):
    """The namespace of jobs."""
    admin = kube.admin()
    name = new_namespace(admin)
    yield name
    admin._call("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def appliance(tmp_path, jobs):
    sessions = {"job-operator": {"namespace": jobs}}
    settings = {"leaseName": NAME, "labels": LABELS, "sessions": sessions, "tellUnmapped": True}
    appliance = KubeAppliance(
        tmp_path / "appliance", tmp_path / "kubeconfig", lease_seconds=60.0, settings=settings
    )
    appliance.start_proxy()
    yield appliance
    appliance.close()


@pytest.fixture
def user(appliance, tmp_path):
    """Return a program that runs a shell command where the user works."""
    home = tmp_path / "home"
    shutil.copytree(ROOT / "examples" / "gpt", home / "gpt")
    given = client_environment() | {"HOME": str(home)}
    given["PATH"] += f":{Path(sys.executable).parent}"
    given["CSCONFIG_PATH"] = str(appliance.appliance.config_path)
    exports = "\n".join(
        f"export {name}='{given[name]}'" for name in ("HOME", "PATH", "CSCONFIG_PATH")
    )
    words = " ".join((*appliance.token_words(), "--data-dir", str(appliance.data_dir)))
    token = f"$(cd {ROOT} && {sys.executable} -m appliance.start {words})"
    program = tmp_path / "as-user"
    program.write_text(
        f"#!/bin/bash\nunset PYTHONPATH KUBECONFIG\n{exports}\n"
        f'CSAUTH_TOKEN="{token}" exec bash -c "$1"\n'
    )
    program.chmod(0o755)
    return program


def test_the_drill_finds_everything_as_the_documents_say(appliance, user, kube, namespace, jobs):
    tmp_path = user.parent
    (tmp_path / "bin").mkdir()
    helm = find_tool(os.environ.get("WSC_DRILL_HELM", "helm4"))
    (tmp_path / "bin" / "helm").symlink_to(helm)
    helm_home = {name: str(tmp_path / "helm") for name in ("HELM_CACHE_HOME", "HELM_DATA_HOME")}
    variables = {
        "KUBECONFIG": str(kube.kubeconfig),
        "PATH": f"{tmp_path}/bin:{TOOLS}:{os.environ['PATH']}",
        "WSC_DRILL_USER": str(user),
        "WSC_DRILL_STEPS": "80",
        "WSC_DRILL_SHORT": "6",
        "WSC_DRILL_OPTIONS": "--seq-len 32 --batch-size 4 --eval-steps 0",
        "WSC_DRILL_JOBS": jobs,
    }
    values = ("postgresql.mode=external", "postgresql.external.host=db", "postgresql.password=x")
    options = [part for value in values for part in ("--set", value)]
    kubelet = tmp_path / "kubelet"
    with (
        JobRunner(kube, namespace, tmp_path).running() as hooks,
        FakeNodes(kube.admin(jobs), addresses=ADDRESSES, directory=kubelet),
        PlayedControllers(
            *(kube, namespace, jobs, appliance, tmp_path / "kubeconfig"), name=NAME
        ) as controllers,
    ):
        done = subprocess.run(
            ["bash", str(ROOT / "deploy" / "drill.sh"), namespace, *options],
            env={**os.environ, **helm_home, **variables},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    said = f"{done.stdout}{done.stderr}"
    assert done.returncode == 0, f"{said}\n{hooks.output}\n{appliance.logs()}"
    assert "draining node node-" in said
    assert controllers.pods_at_replacements
    assert min(controllers.pods_at_replacements) > 0, "the upgrade was under no run"
    assert done.stdout.splitlines()[-1] == "drill: everything is as docs/deployment.md says"
