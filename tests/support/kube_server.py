"""A real etcd and kube-apiserver on loopback, or the cluster that KUBECONFIG names."""

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import yaml
from kubernetes import client, config

from appliance.cluster.kubernetes.api import ApiError, ApiServer
from appliance.cluster.kubernetes.object_kinds import WSJOB
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("WSC_KUBE_CACHE", Path.home() / ".cache/wsc"))
SERVER_DIR = Path(os.environ.get("WSC_KUBE_APISERVER") or CACHE / "kube-apiserver-1.20.2")
"""Has bin/kube-apiserver, and bin/etcd where Debian's is too old for it."""

TOOLS = CACHE / "kube-tools" / "bin"
CHART = ROOT / "helm/wsc-appliance"
CRDS = CHART / "files/crds"
ADMIN_TOKEN = "admin-of-the-tests"
_START_SECONDS = 300.0


def find_tool(name: str) -> str | None:
    """Return the path of kubectl or helm; None if there is none."""
    cached = TOOLS / name
    return str(cached) if cached.exists() else shutil.which(name)


def reason_to_skip() -> str:
    """Return why there is no API server to test with; empty if there is one."""
    if os.environ.get("KUBECONFIG"):
        return ""
    if not (SERVER_DIR / "bin/kube-apiserver").exists() or not _etcd():
        return "no KUBECONFIG, and no API server was built: run `make kube-apiserver` as root"
    return ""


def _etcd() -> str | None:
    own = SERVER_DIR / "bin/etcd"
    return str(own) if own.exists() else shutil.which("etcd")


@dataclass
class KubeServer:
    """A cluster to test with, and its administrator's kubeconfig.

    `address` is host:port of the API server where it is our own.
    """

    directory: Path
    kubeconfig: Path
    address: str = ""
    etcd_url: str = ""
    processes: list[subprocess.Popen] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    @property
    def minor(self) -> int:
        """Second number of its version: 36 for 1.36."""
        return _minor_of(self.arguments[0])

    def admin(self, namespace: str = "default") -> ApiServer:
        return ApiServer(client.ApiClient(self._settings()), namespace)

    def as_account(self, namespace: str, token: str, *, address: str = "") -> ApiServer:
        """Return the cluster as a service account sees it, through another address if given."""
        settings = self._settings()
        settings.api_key = {"BearerToken": f"Bearer {token}"}
        settings.refresh_api_key_hook = None
        if address:
            settings.host = f"https://{address}"
        return ApiServer(client.ApiClient(settings), namespace)

    def _settings(self) -> client.Configuration:
        settings = client.Configuration()
        config.load_kube_config(str(self.kubeconfig), client_configuration=settings)
        settings.connection_pool_maxsize = 16
        if self.address:  # its tokens do not expire; the hook would look for a proxy at each call
            settings.refresh_api_key_hook = None
        return settings

    def write_kubeconfig(self, path: Path, token: str, namespace: str) -> Path:
        """Write a kubeconfig for somebody else in a namespace."""
        document = yaml.safe_load(self.kubeconfig.read_text())
        document["users"] = [{"name": "admin", "user": {"token": token}}]
        document["contexts"][0]["context"] |= {"namespace": namespace, "user": "admin"}
        path.write_text(yaml.safe_dump(document))
        return path

    def kubectl(self, *arguments: str, namespace: str, given: str | None = None) -> str:
        """Run kubectl as the administrator; return what it prints."""
        program = find_tool("kubectl")
        assert program, "kubectl is missing: deploy/setup.sh kube-tools"
        answer = subprocess.run(
            [program, "--kubeconfig", self.kubeconfig, "--namespace", namespace, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def compact(self) -> None:
        """Let etcd forget every version but the present one."""
        with httpx.Client(base_url=self.etcd_url) as etcd:
            status = etcd.post("/v3/maintenance/status", json={}).json()
            revision = status["header"]["revision"]
            answer = etcd.post("/v3/kv/compaction", json={"revision": revision, "physical": True})
            assert answer.status_code == 200, answer.text

    def restart_api_server(self) -> None:
        """End the API server, and start it anew with nothing in its caches."""
        server = self.processes.pop()
        server.kill()
        server.wait()
        self._start_api_server()

    def _start_api_server(self) -> None:
        self._spawn(self.arguments, "kube-apiserver")
        deadline = time.monotonic() + _START_SECONDS
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        with httpx.Client(verify=False, headers=headers) as http:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if http.get(f"https://{self.address}/readyz").status_code == 200:
                        return
                assert self.processes[-1].poll() is None, self.log("kube-apiserver")
                assert time.monotonic() < deadline, self.log("kube-apiserver")
                time.sleep(0.1)  # noqa: TID251 - real processes take real time

    def _spawn(self, command: list[str], name: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()[-5000:]


@contextlib.contextmanager
def running_kube_server(directory: Path) -> Iterator[KubeServer]:
    """Yield the cluster, with our kinds installed."""
    if given := os.environ.get("KUBECONFIG"):
        server = KubeServer(directory, Path(given))
        install_crds(server.admin())
        yield server
        return
    etcd_port, peer_port, port = free_port(), free_port(), free_port()
    server = KubeServer(
        directory,
        directory / "kubeconfig",
        address=f"127.0.0.1:{port}",
        etcd_url=f"http://127.0.0.1:{etcd_port}",
    )
    server.arguments = _api_server_command(directory, server.etcd_url, port)
    peer = f"http://127.0.0.1:{peer_port}"
    _write_admin_kubeconfig(server)
    try:
        server._spawn(
            [
                str(_etcd()),
                f"--data-dir={directory}/etcd",
                "--unsafe-no-fsync",
                f"--listen-client-urls={server.etcd_url}",
                f"--advertise-client-urls={server.etcd_url}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
            ],
            "etcd",
        )
        server._start_api_server()
        install_crds(server.admin())
        yield server
    finally:
        for process in reversed(server.processes):
            process.kill()
            process.wait()


def _api_server_command(directory: Path, etcd_url: str, port: int) -> list[str]:
    key = directory / "accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    tokens = directory / "tokens.csv"
    tokens.write_text(f"{ADMIN_TOKEN},admin,admin,system:masters\n")
    program = str(SERVER_DIR / "bin/kube-apiserver")
    return [
        program,
        *_version_flags(program),
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={directory}/certificates",
        f"--token-auth-file={tokens}",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--storage-media-type=application/json",
        # Versions of these are forgotten when etcd forgets them, so that a test can make it so.
        "--watch-cache-sizes=configmaps#0",
        # Its statistics of queues are half of what an idle server computes.
        "--enable-priority-and-fairness=false",
        "--v=1",
    ]


def _version_flags(program: str) -> list[str]:
    """Return what only some versions of the server know."""
    return ["--insecure-port=0"] if _minor_of(program) < 24 else []


def _minor_of(program: str) -> int:
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    return int(said.stdout.split("v1.")[1].split(".")[0])


def _write_admin_kubeconfig(server: KubeServer) -> None:
    authority = server.directory / "certificates/apiserver.crt"  # the server makes it
    cluster = {"server": f"https://{server.address}", "certificate-authority": str(authority)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": ADMIN_TOKEN}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "current-context": "test",
    }
    server.kubeconfig.write_text(yaml.safe_dump(document))


def install_crds(admin: ApiServer) -> None:
    """Create or replace our kinds, and wait until they are served."""
    root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for path in sorted(CRDS.glob("*.yaml")):
        definition = yaml.safe_load(path.read_text())
        name = definition["metadata"]["name"]
        present = admin._call("GET", f"{root}/{name}", missing=True)
        if present is None:
            admin._call("POST", root, body=definition)
        else:
            admin._call(
                "PATCH",
                f"{root}/{name}",
                body={"spec": definition["spec"]},
                content_type="application/merge-patch+json",
            )
        deadline = time.monotonic() + 120
        while not _is_established(admin._call("GET", f"{root}/{name}")):
            assert time.monotonic() < deadline, name
            time.sleep(0.05)  # noqa: TID251 - a real server takes real time


def await_no_rules(admin: ApiServer) -> None:
    """Wait until the definitions as `install_crds` makes them hold, without the chart's rules."""
    path = f"{WSJOB.path('default')}?dryRun=All"
    driver = {"apiVersion": WSJOB.api_version, "kind": WSJOB.name, "spec": {"type": "driver"}}
    body = {**driver, "metadata": {"name": "without-rules"}}
    deadline = time.monotonic() + 120
    while True:
        try:
            admin._call("POST", path, body=body)
        except ApiError as error:
            if not error.is_refusal or time.monotonic() > deadline:
                raise
            time.sleep(0.05)  # noqa: TID251 - a real server takes real time
        else:
            return


def _is_established(definition) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return {"Established": "True", "NamesAccepted": "True"}.items() <= {
        (each["type"], each["status"]) for each in conditions
    }


def new_namespace(admin: ApiServer) -> str:
    """Make a namespace that nobody else uses."""
    name = f"wsc-{secrets.token_hex(4)}"
    admin._call("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    if not os.environ.get("KUBECONFIG"):  # as a controller does on a whole cluster
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
        admin._call("POST", accounts, body={"metadata": {"name": "default"}})
    return name


def chart_rules(*arguments: str) -> list[dict]:
    """Return the rules of the chart's role, as helm renders them, with further arguments."""
    program = find_tool("helm")
    assert program, "helm is missing: deploy/setup.sh kube-tools"
    text = subprocess.run(
        [
            *(program, "template", "test", str(CHART)),
            *("--show-only", "templates/rbac.yaml", *arguments),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    ).stdout
    (role,) = [each for each in yaml.safe_load_all(text) if each and each["kind"] == "Role"]
    return role["rules"]


@dataclass
class Account:
    """A service account with the chart's role."""

    admin: ApiServer
    namespace: str
    token: str
    rules: list[dict]

    def set_rules(self, rules: list[dict]) -> None:
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}/roles/appliance"
        self.admin._call(
            "PATCH", path, body={"rules": rules}, content_type="application/merge-patch+json"
        )


def make_account(admin: ApiServer, namespace: str, rules: list[dict]) -> Account:
    """Make a service account, a role with some rules and its token."""
    core = f"/api/v1/namespaces/{namespace}"
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    admin._call("POST", f"{core}/serviceaccounts", body={"metadata": {"name": "appliance"}})
    admin._call("POST", f"{rbac}/roles", body={"metadata": {"name": "appliance"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "appliance", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "appliance"}
    binding = {"metadata": {"name": "appliance"}, "roleRef": role, "subjects": [subject]}
    admin._call("POST", f"{rbac}/rolebindings", body=binding)
    return Account(admin, namespace, account_token(admin, "appliance"), rules)


def account_token(admin: ApiServer, name: str) -> str:
    """Return a token of a service account."""
    answer = admin._call(
        "POST",
        f"/api/v1/namespaces/{admin.namespace}/serviceaccounts/{name}/token",
        body={"spec": {"audiences": ["https://kubernetes.default.svc"]}},
    )
    return answer["status"]["token"]


def as_json(value) -> str:
    return json.dumps(value, indent=1, sort_keys=True)
