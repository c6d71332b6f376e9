"""Nodes of a Kubernetes cluster, played: a scheduler that binds pods and a kubelet that runs them.

What decides how the appliance behaves is done as the real ones do it: a pod whose directory is
missing does not start, one that is being deleted ends first, ends are told by exit code. A
`directory` makes the kubelet run each pod's command for real, as a process of this machine.
"""

import re
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from appliance.cluster.kubernetes.api import ApiServer
from appliance.cluster.kubernetes.gangs import is_ended
from appliance.cluster.kubernetes.manifests import SPEC_DIRECTORY, START_FILE
from appliance.cluster.kubernetes.object_kinds import (
    JOB_LABEL,
    POD,
    Kind,
    Resource,
    is_being_deleted,
    name_of,
)
from appliance.core.errors import ClusterError
from tests.support.forked import ForkedProcess
from tests.support.pod_programs import start_program, start_program_there

ROOT = Path(__file__).parents[2]
NODE = Kind(group="", version="v1", plural="nodes", name="Node", is_namespaced=False)
_POLL_SECONDS = 0.1
_POLL_WITH_PROCESSES_SECONDS = 0.5
"""Processes take seconds to start; asking for them more often only takes their time."""
_GRACE_SECONDS = 10.0


class FakeNodes:
    """The nodes.

    Args:
        api: The cluster, as its administrator.
        capacity: Pods that find room.
        addresses: Where the pods of each node are reached, by the node's name.
        directory: Where the kubelet keeps what pods mount; None plays processes too.
        environment: Variables of the processes, beside those that their pods name.
        refreshes: Whether pods ever see that a file was added to their directory.
        enter: What comes before the command of a process. Each then has an interpreter of its own,
            and runs as whom its pod says.
    """

    def __init__(
        self,
        api: ApiServer,
        *,
        capacity: int = 1000,
        addresses: Mapping[str, str] | None = None,
        directory: Path | None = None,
        environment: dict[str, str] | None = None,
        refreshes: bool = True,
        enter: Sequence[str] = (),
    ) -> None:
        self._refreshes, self._enter = refreshes, enter
        self._api, self.capacity, self._directory = api, capacity, directory
        self._addresses = addresses or {"fake-node": "127.0.0.1"}
        self._environment = environment or {}
        self._processes: dict[str, ForkedProcess | subprocess.Popen[bytes]] = {}
        self._ends: dict[str, int] = {}
        self._let_go: set[str] = set()
        self.started: list[str] = []
        self.bound: set[str] = set()
        self._poll_seconds = _POLL_WITH_PROCESSES_SECONDS if directory else _POLL_SECONDS
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.errors: list[BaseException] = []

    def __enter__(self) -> "FakeNodes":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stopping.set()
        self._thread.join(30)
        for process in self._processes.values():
            process.kill()
            process.wait(60)
        assert not self.errors, self.errors

    def end(self, name: str, exit_code: int) -> None:
        """Let a pod that runs end by itself."""
        self._ends[name] = exit_code

    def pods(self) -> list[Resource]:
        items, _ = self._api.list(POD)
        return list(items)

    def _run(self) -> None:
        while not self._stopping.wait(self._poll_seconds):
            try:
                for pod in self.pods():
                    if self._is_of_a_job(pod):
                        self._look_at(pod)
            except ClusterError as error:
                if self._stopping.is_set():
                    return
                print(f"fake nodes: {error}")
            except BaseException as error:
                self.errors.append(error)
                raise

    def _is_of_a_job(self, pod: Resource) -> bool:
        """Return whether a pod is a job's: those of Deployments are not played."""
        labels = pod["metadata"].get("labels") or {}
        return JOB_LABEL in labels or name_of(pod) in self.bound  # strangers take labels away

    def _look_at(self, pod: Resource) -> None:
        phase = (pod.get("status") or {}).get("phase", "Pending")
        if is_being_deleted(pod):
            self._terminate(pod)
        elif not pod["spec"].get("nodeName"):
            self._schedule(pod)
        elif phase == "Pending":
            self._start(pod)
        elif phase == "Running":
            self._watch(pod)

    def _schedule(self, pod: Resource) -> None:
        if pod["spec"].get("schedulingGates"):  # since Kubernetes 1.27; older servers drop them
            return
        bound = [
            each for each in self.pods() if each["spec"].get("nodeName") and not is_ended(each)
        ]
        open_nodes = self._addresses.keys() - self._cordoned()
        if len(bound) >= self.capacity or not open_nodes:
            count = len(self._addresses)
            why = f"Too many pods ({len(bound)})" if open_nodes else "node(s) were unschedulable"
            message = f"0/{count} nodes are available: {count} {why}."
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            present = (pod.get("status") or {}).get("conditions") or [{}]
            if present[0].get("message") != message:
                self._status(pod, {"conditions": [{**condition, "message": message}]})
            return
        node = self._choose(pod, bound, open_nodes)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"metadata": {"name": name_of(pod)}, "target": target}
        path = POD.path(self._api.namespace, name_of(pod), "binding")
        self._api._call("POST", path, body=body, missing=True)
        self.bound.add(name_of(pod))

    def _cordoned(self) -> set[str]:
        """Return the nodes that `kubectl drain` or `cordon` has closed."""
        return {name_of(n) for n in self._api.list(NODE)[0] if n["spec"].get("unschedulable")}

    def _choose(self, pod: Resource, bound: Sequence[Resource], open_nodes: Set[str]) -> str:
        """Return the open node with the fewest pods that this one is to be spread from."""
        selectors = [
            each["labelSelector"]["matchLabels"].items()
            for each in pod["spec"].get("topologySpreadConstraints") or []
            if each["topologyKey"] == "kubernetes.io/hostname"
        ]
        used = Counter(dict.fromkeys(self._addresses, 0))
        for other in bound:
            labels = other["metadata"]["labels"].items()
            used[other["spec"]["nodeName"]] += sum(each <= labels for each in selectors)
        return min((n for n in self._addresses if n in open_nodes), key=used.__getitem__)

    def _start(self, pod: Resource) -> None:
        files = own_directory(pod)
        if not files.is_dir():
            return  # as a kubelet: tried again until it is there
        address = self._addresses[pod["spec"]["nodeName"]]
        if self._directory is not None:
            self._spawn(pod, files, address)
        running = {"name": "pod", "ready": True, "state": {"running": {}}, "restartCount": 0}
        fields = {"image": "test", "imageID": "test"}
        present = (pod.get("status") or {}).get("conditions") or []
        self._status(
            pod,
            {
                "phase": "Running",
                "podIP": address,
                "conditions": [*present, {"type": "Ready", "status": "True"}],
                "containerStatuses": [{**running, **fields}],
            },
        )

    def _spawn(self, pod: Resource, files: Path, address: str) -> None:
        name, container = name_of(pod), pod["spec"]["containers"][0]
        directory = self._directory / name
        directory.mkdir(parents=True, exist_ok=True)
        for file in files.iterdir():
            # There is no file system of the container's own: its paths lead elsewhere.
            moved = file.read_bytes().replace(
                f'"{SPEC_DIRECTORY}/'.encode(), f'"{directory}/'.encode()
            )
            (directory / file.name).write_bytes(moved)
        variables = {each["name"]: each.get("value", address) for each in container["env"]}
        command = [
            re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], part).replace(
                SPEC_DIRECTORY, str(directory)
            )
            for part in (*container["command"], *container["args"])
        ]
        assert command[0] == "python"
        start = start_program
        if self._enter:
            start = start_program_there((*self._enter, *_become(pod["spec"]["securityContext"])))
        self._processes[name] = start(
            command[1:],
            environment={**variables, **self._environment},
            cwd=container["workingDir"],
            output=directory / "output",
        )

    def _watch(self, pod: Resource) -> None:
        name = name_of(pod)
        may_start = (own_directory(pod) / START_FILE).exists()
        if may_start and pod["metadata"]["uid"] not in self._let_go:
            self._let_go.add(pod["metadata"]["uid"])
            if self._directory is not None and self._refreshes:
                (self._directory / name / START_FILE).write_text("1")
            self.started.append(name)
        code = self._ends.pop(name, None)
        if (process := self._processes.get(name)) is not None:
            code = process.poll()
            if code is not None:
                code = 128 - code if code < 0 else code
        if code is not None:
            self._ended(pod, code)

    def _ended(self, pod: Resource, code: int) -> None:
        reason = "Completed" if code == 0 else "OOMKilled" if code == 137 else "Error"
        state = {"terminated": {"exitCode": code, "reason": reason}}
        fields = {"name": "pod", "ready": False, "restartCount": 0, "image": "test"}
        self._status(
            pod,
            {
                "phase": "Failed" if code else "Succeeded",
                "containerStatuses": [{**fields, "imageID": "test", "state": state}],
            },
        )

    def _terminate(self, pod: Resource) -> None:
        name = name_of(pod)
        if (process := self._processes.pop(name, None)) is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(60)
        self._api.delete(POD, name, uid=pod["metadata"]["uid"], grace_seconds=0)

    def _status(self, pod: Resource, status: Resource) -> None:
        self._api.patch(POD, name_of(pod), {"status": status}, subresource="status")


def _become(security: Resource) -> Sequence[str]:
    """Return what runs a command as the user and with the groups of a pod."""
    groups = ",".join(map(str, security["supplementalGroups"]))
    ids = (f"--reuid={security['runAsUser']}", f"--regid={security['runAsGroup']}")
    return "setpriv", *ids, f"--groups={groups}", "--"


def own_directory(pod: Resource) -> Path:
    """Return where this machine has the part of the data volume that is a pod's own."""
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    of_data = {each["mountPath"]: each["subPath"] for each in mounts if each["name"] == "data"}
    own = of_data.pop(SPEC_DIRECTORY)
    path, below = next(iter(of_data.items()))  # elsewhere pods have the volume where management has
    return Path(path.removesuffix(f"/{below}")) / own
