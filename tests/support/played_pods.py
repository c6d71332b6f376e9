"""A kubelet for pods that are not a job's, played: the user's, and the one of `helm test`."""

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

from appliance.cluster.kubernetes.object_kinds import (
    JOB_LABEL,
    POD,
    SECRET,
    SERVICE_ACCOUNT,
    name_of,
)
from appliance.core.errors import ClusterError
from tests.support.kube_server import account_token
from tests.support.played_logs import PlayedLogs

ROOT = Path(__file__).parents[2]
_POLL_SECONDS = 0.5


class PlayedPods:
    """Says that pods run; those of `helm test` do, with the rights of their account, and end.

    Args:
        kube: The cluster.
        namespace: Where the pods are.
        written_here: What the program of a test says otherwise on this machine, and how.
        directory: For what is written meanwhile.
        further: Further words of that program.
    """

    def __init__(self, kube, namespace, written_here, directory, further=()):
        self._kube, self._admin = kube, kube.admin(namespace)
        self._written_here, self._directory = written_here, directory
        self._further = further
        self._logs = PlayedLogs(self._admin)
        self._stack = contextlib.ExitStack()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def output(self):
        """What programs of tests have printed, the last one last."""
        return list(self._logs.of_pods.values())

    def __enter__(self):
        self._directory.mkdir(parents=True, exist_ok=True)
        self._stack.enter_context(self._logs.served(self._directory))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        self._thread.join(300)
        self._stack.close()

    def _run(self):
        while not self._stopping.wait(_POLL_SECONDS):
            try:
                self._give_tokens()
                for pod in self._admin.list(POD)[0]:
                    if JOB_LABEL not in (pod["metadata"].get("labels") or {}):
                        self._keep(pod)
            except ClusterError as error:
                print(f"played pods: {error}")

    def _give_tokens(self):
        """Do what a controller does on servers before 1.24; they let no pod in without a token."""
        for account in self._admin.list(SERVICE_ACCOUNT)[0]:
            name = name_of(account)
            if name.endswith("-test") and not account.get("secrets"):
                prefix = "kubernetes.io/service-account"
                notes = {f"{prefix}.name": name, f"{prefix}.uid": account["metadata"]["uid"]}
                metadata = {"generateName": f"{name}-token-", "annotations": notes}
                body = {"metadata": metadata, "type": f"{prefix}-token"}
                secret = name_of(self._admin.create(SECRET, body))
                self._admin.patch(SERVICE_ACCOUNT, name, {"secrets": [{"name": secret}]})

    def _keep(self, pod):
        if pod["metadata"].get("deletionTimestamp"):
            self._admin.delete(POD, name_of(pod), uid=pod["metadata"]["uid"], grace_seconds=0)
        elif (pod.get("status") or {}).get("phase", "Pending") == "Pending":
            is_test = (pod["metadata"].get("annotations") or {}).get("helm.sh/hook") == "test"
            phase = self._test(pod) if is_test else "Running"
            ready = {"type": "Ready", "status": "True"}
            status = {"phase": phase, "conditions": [ready]}
            self._admin.patch(POD, name_of(pod), {"status": status}, subresource="status")

    def _test(self, pod):
        self._logs.take(pod)
        (container,) = pod["spec"]["containers"]
        python, *words = [*container["command"], *container["args"]]
        assert python == "python"
        for text, instead in self._written_here().items():
            assert any(text in word for word in words), f"{text} is not in {words}"
            words = [word.replace(text, instead) for word in words]
        done = subprocess.run(
            [sys.executable, *words, *self._further],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            cwd=ROOT,
            env={**os.environ, "KUBECONFIG": str(self._account(pod)), "PYTHONWARNINGS": "ignore"},
        )
        self._logs.of_pods[name_of(pod)] = done.stdout + done.stderr
        print(self.output[-1])
        return "Succeeded" if done.returncode == 0 else "Failed"

    def _account(self, pod):
        """Return a file by which a pod's account finds the cluster."""
        token = account_token(self._admin, pod["spec"]["serviceAccountName"])
        return self._kube.write_kubeconfig(
            self._directory / name_of(pod), token, self._admin.namespace
        )
