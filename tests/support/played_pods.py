"""A kubelet for pods that are not a job's, played: the user's, and the one of `helm test`."""

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

ROOT = Path(__file__).parents[2]
_POLL_SECONDS = 0.5


class PlayedPods:
    """Says that pods run; those of `helm test` do, and end.

    Args:
        admin: The cluster, as its administrator, in the namespace of the pods.
        written_here: What the program of a test says otherwise on this machine, and how.
        kubeconfig: By which that program finds the cluster.
    """

    def __init__(self, admin, written_here, kubeconfig):
        self._admin, self._written_here, self._kubeconfig = admin, written_here, kubeconfig
        self.output: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        self._thread.join(60)

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
        (container,) = pod["spec"]["containers"]
        python, *words = [*container["command"], *container["args"]]
        assert python == "python"
        for text, instead in self._written_here().items():
            assert any(text in word for word in words), f"{text} is not in {words}"
            words = [word.replace(text, instead) for word in words]
        done = subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
            cwd=ROOT,
            env={**os.environ, "KUBECONFIG": str(self._kubeconfig)},
        )
        self.output.append(done.stdout + done.stderr)
        print(self.output[-1])
        return "Succeeded" if done.returncode == 0 else "Failed"
