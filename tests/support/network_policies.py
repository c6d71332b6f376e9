"""NetworkPolicies enforced by the kernel: each pod is a network namespace with rules of nftables.

What a network plugin does: a pod that some policy selects takes, or sends, what one of its policies
allows and nothing else; answers come back. Source: Kubernetes, NetworkPolicy, networking.k8s.io/v1.
Where a real plugin drops a connection this refuses it, so that nobody has to wait.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_BRIDGE_NETWORK = "10.213.0."
_LISTENER = """
import selectors, socket, sys
chosen = selectors.DefaultSelector()
for port in map(int, sys.argv[1:]):
    listener = socket.create_server(("0.0.0.0", port))
    chosen.register(listener, selectors.EVENT_READ)
print("ready", flush=True)
while True:
    for key, _ in chosen.select():
        key.fileobj.accept()[0].close()
"""
_CALLER = """
import json, socket, sys
reached = []
for address, port in json.loads(sys.argv[1]):
    try:
        socket.create_connection((address, port), timeout=10).close()
        reached.append([address, port])
    except ConnectionRefusedError:
        pass
print(json.dumps(reached))
"""


@dataclass(frozen=True, kw_only=True)
class PolicyPod:
    """A pod as policies see it.

    Attributes:
        name: Its name.
        labels: Its labels.
        ports: What it listens on, by the names that its containers give these ports.
        namespace: Where it is.
    """

    name: str
    labels: Mapping[str, str]
    ports: Mapping[str, int]
    namespace: str = "wafer"


def reason_to_skip() -> str:
    """Return why no policy can be enforced here; empty if it can."""
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    if not shutil.which("nft") or not shutil.which("ip"):
        return "nftables or iproute2 is missing"
    probe = ["unshare", "--net", "nft", "add", "table", "inet", "probe"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    return f"the kernel takes no rules: {done.stderr.strip()}" if done.returncode else ""


def flows(
    pods: Sequence[PolicyPod], policies: Sequence[Mapping[str, Any]]
) -> dict[tuple[str, str], set[str]]:
    """Return which ports of which pod each pod reaches, by (from, to), where it reaches any."""
    by_address = {_address(index): pod for index, pod in enumerate(pods)}
    found: dict[tuple[str, str], set[str]] = {}
    with _namespaces(pods, policies) as names:
        for index, pod in enumerate(pods):
            targets = [
                (address, port)
                for address, other in by_address.items()
                if other is not pod
                for port in other.ports.values()
            ]
            said = _in(names[index], sys.executable, "-c", _CALLER, json.dumps(targets))
            for address, port in json.loads(said):
                other = by_address[address]
                (name,) = [each for each, number in other.ports.items() if number == port]
                found.setdefault((pod.name, other.name), set()).add(name)
    return found


def rules_of(
    pod: PolicyPod, pods: Sequence[PolicyPod], policies: Sequence[Mapping[str, Any]]
) -> str:
    """Return the rules of nftables that enforce all policies for one pod."""
    mine = [
        each["spec"]
        for each in policies
        if pod.namespace == each["metadata"].get("namespace", "wafer")
        and _selects(each["spec"]["podSelector"], pod.labels)
    ]
    lines = ["table inet policies {"]
    for direction, hook, end, side in (
        ("Ingress", "input", "from", "saddr"),
        ("Egress", "output", "to", "daddr"),
    ):
        isolating = [spec for spec in mine if direction in spec["policyTypes"]]
        lines += [f" chain {hook} {{", f"  type filter hook {hook} priority 0; policy accept;"]
        lines += ["  ct state established,related accept", "  meta l4proto icmp accept"]
        lines += ["  iif lo accept"] if hook == "input" else []
        for spec in isolating:
            for rule in spec.get(direction.lower()) or ():
                lines += _accepting(rule, end, side, pod, pods, is_target=direction == "Ingress")
        lines += ["  meta l4proto tcp reject with tcp reset"] if isolating else []
        lines += [" }"]
    return "\n".join([*lines, "}"])


def _accepting(
    rule: Mapping[str, Any],
    end: str,
    side: str,
    subject: PolicyPod,
    pods: Sequence[PolicyPod],
    *,
    is_target: bool,
) -> Iterator[str]:
    peers = rule.get(end)
    addresses = [
        _address(index)
        for index, pod in enumerate(pods)
        if peers and any(_is_peer(peer, pod, subject.namespace) for peer in peers)
    ]
    if peers and not addresses:
        return
    where = f"ip {side} {{ {', '.join(addresses)} }} " if peers else ""
    ports = rule.get("ports")
    if not ports:
        yield f"  {where}accept"
    for port in ports or ():
        number = port["port"]
        if isinstance(number, str):
            assert is_target, "named ports of other pods are not resolved here"
            if number not in subject.ports:
                continue
            number = subject.ports[number]
        yield f"  {where}{port.get('protocol', 'TCP').lower()} dport {number} accept"


def _is_peer(peer: Mapping[str, Any], pod: PolicyPod, namespace: str) -> bool:
    assert set(peer) <= {"podSelector", "namespaceSelector"}, f"{peer} is not understood here"
    if "namespaceSelector" in peer:
        labels = {"kubernetes.io/metadata.name": pod.namespace}
        if not _selects(peer["namespaceSelector"], labels):
            return False
    elif pod.namespace != namespace:
        return False
    return _selects(peer.get("podSelector") or {}, pod.labels)


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    assert set(selector) <= {"matchLabels", "matchExpressions"}, f"{selector} is not understood"
    for each in selector.get("matchExpressions") or ():
        assert each["operator"] == "In", f"{each} is not understood here"
        if labels.get(each["key"]) not in each["values"]:
            return False
    return (selector.get("matchLabels") or {}).items() <= labels.items()


def _address(index: int) -> str:
    return f"{_BRIDGE_NETWORK}{index + 10}"


@contextmanager
def _namespaces(
    pods: Sequence[PolicyPod], policies: Sequence[Mapping[str, Any]]
) -> Iterator[Sequence[str]]:
    """Yield a network namespace for each pod, all on one bridge, each with its rules."""
    unique = f"wsc{os.getpid()}"
    bridge, names = f"{unique}b", [f"{unique}-{index}" for index in range(len(pods))]
    listeners: list[subprocess.Popen[str]] = []
    try:
        # The bridge is in a namespace, too: the machine's own network stays as it is.
        _run("ip", "netns", "add", bridge)
        _in(bridge, "ip", "link", "add", "bridge", "type", "bridge")
        _in(bridge, "ip", "link", "set", "bridge", "up")
        for index, (name, pod) in enumerate(zip(names, pods, strict=True)):
            _run("ip", "netns", "add", name)
            _in(bridge, *f"ip link add p{index} type veth peer name eth0 netns {name}".split())
            _in(bridge, *f"ip link set p{index} master bridge up".split())
            _in(name, *f"ip address add {_address(index)}/24 dev eth0".split())
            _in(name, "ip", "link", "set", "eth0", "up")
            _in(name, "ip", "link", "set", "lo", "up")  # by which a refusal of its own comes
            _in(name, "nft", "-f", "-", given=rules_of(pod, pods, policies))
            command = ["ip", "netns", "exec", name, sys.executable, "-c", _LISTENER]
            command += [str(port) for port in pod.ports.values()]
            listeners.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        for listener in listeners:
            assert listener.stdout is not None
            assert listener.stdout.readline() == "ready\n"
        yield names
    finally:
        for listener in listeners:
            listener.kill()
            listener.communicate()
        for name in (*names, bridge):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _run(*command: str, given: str | None = None) -> str:
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{' '.join(command[:8])}: {done.stderr}\n{given or ''}"
    return done.stdout


def _in(name: str, *command: str, given: str | None = None) -> str:
    return _run("ip", "netns", "exec", name, *command, given=given)
