"""Who reaches whom under the chart's NetworkPolicies, tried with real connections for every pair.

No network plugin can be had here, so the policies are enforced by the kernel's own packet filter
(`tests/support/network_policies`), from what helm renders.
"""

from typing import Any

import pytest

from appliance.cluster.kubernetes.options import parse_options
from tests.support.helm import Helm, Settings
from tests.support.network_policies import PolicyPod, flows, reason_to_skip

JOB_PORTS = {"streams": 7001, "tunnels": 7002}
ALL_OF_JOB = set(JOB_PORTS)
CLIENTS = {"clients", "rest"}


def pods_of(objects: list[dict[str, Any]]) -> list[PolicyPod]:
    """Return the chart's pods, two of jobs, and strangers."""
    pods = []
    for found in objects:
        if found["kind"] in ("Deployment", "StatefulSet"):
            template = found["spec"]["template"]
            labels = template["metadata"]["labels"]
            ports = {
                port["name"]: port["containerPort"]
                for container in template["spec"]["containers"]
                for port in container.get("ports", ())
            }
            component = labels["app.kubernetes.io/component"]
            pods.append(PolicyPod(name=component, labels=labels, ports=ports))
        if found["kind"] == "Job":
            labels = found["spec"]["template"]["metadata"]["labels"]
            component = labels["app.kubernetes.io/component"]
            pods.append(PolicyPod(name=component, labels=labels, ports={}))
        if found["kind"] == "Pod":
            pods.append(PolicyPod(name="test", labels=found["metadata"]["labels"], ports={}))
    (settings,) = [each["data"]["settings.yaml"] for each in objects if _has_settings(each)]
    ours = parse_options(settings, source="the chart").labels
    for role in ("chief", "driver"):
        labels = {**ours, "wsc.open-appliance.org/role": role}
        pods.append(PolicyPod(name=role, labels=labels, ports=JOB_PORTS))
    pods.append(PolicyPod(name="user-node", labels={"app": "user"}, ports={"ssh": 2222}))
    pods.append(PolicyPod(name="stranger", labels=ours, ports={"web": 8080}, namespace="other"))
    return pods


def _has_settings(found: dict[str, Any]) -> bool:
    return found["kind"] == "ConfigMap" and "settings.yaml" in found["data"]


HOOKS = {"crds", "certificates", "password", "end-jobs"}
DENY_ALL = {
    "metadata": {"name": "deny"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
}


def reached(
    helm: Helm, *values: str, others: tuple[str, ...] = (), further: tuple[dict[str, Any], ...] = ()
) -> dict[tuple[str, str], set[str]]:
    """Return who reaches whom; each of `others` is a namespace with a pod of a job."""
    objects = helm.template(Settings(values=values))
    policies = [each for each in objects if each["kind"] == "NetworkPolicy"]
    assert policies
    (settings,) = [each["data"]["settings.yaml"] for each in objects if _has_settings(each)]
    labels = parse_options(settings, source="the chart").labels
    there = [
        PolicyPod(name=f"job-in-{name}", labels=labels, ports=JOB_PORTS, namespace=name)
        for name in others
    ]
    return flows([*pods_of(objects), *there], [*policies, *further])


@pytest.fixture(autouse=True)
def enforced() -> None:
    if reason := reason_to_skip():
        pytest.skip(reason)


def test_pods_reach_what_they_need_and_nothing_else(helm: Helm) -> None:
    management = {"clients", "rest", "inner"}
    jobs = {
        (first, second): ALL_OF_JOB for first, second in (("chief", "driver"), ("driver", "chief"))
    }
    to_jobs = {
        (first, job): ALL_OF_JOB for first in ("management", "proxy") for job in ("chief", "driver")
    }
    from_jobs = {
        (job, target): ports
        for job in ("chief", "driver")
        for target, ports in (("management", management), ("proxy", CLIENTS))
    }
    strangers = {
        (name, target): CLIENTS
        for name in ("user-node", "stranger")
        for target in ("management", "proxy")
    }
    services = {
        ("management", "postgresql"): {"postgresql"},
        ("management", "proxy"): CLIENTS,
        ("management", "user-node"): {"ssh"},
        ("management", "stranger"): {"web"},
        ("proxy", "management"): CLIENTS,
        ("proxy", "postgresql"): {"postgresql"},
        ("proxy", "user-node"): {"ssh"},
        ("proxy", "stranger"): {"web"},
        ("test", "management"): management,
        ("test", "proxy"): CLIENTS,
        ("test", "user-node"): {"ssh"},
        ("test", "stranger"): {"web"},
        **{(hook, "management"): CLIENTS for hook in HOOKS},
        **{(hook, "proxy"): CLIENTS for hook in HOOKS},
        **{(hook, "user-node"): {"ssh"} for hook in HOOKS},
        **{(hook, "stranger"): {"web"} for hook in HOOKS},
        ("user-node", "stranger"): {"web"},
        ("stranger", "user-node"): {"ssh"},
    }
    assert reached(helm) == {**jobs, **to_jobs, **from_jobs, **strangers, **services}


def test_all_of_it_works_where_a_namespace_lets_nothing_in_or_out_by_default(helm: Helm) -> None:
    """The API server, an identity provider and others are strangers, too."""
    found, usual = reached(helm, further=(DENY_ALL,)), reached(helm)
    lost = usual.keys() - found.keys()
    assert {pair for pair in lost if "user-node" not in pair} == set()
    assert {found[pair] == usual[pair] for pair in found} == {True}
    assert {source for source, target in found if target == "stranger"} == {
        *HOOKS,
        *("management", "proxy", "test"),
    }


def test_clients_come_only_from_where_the_values_say(helm: Helm) -> None:
    selector = "networkPolicy.from[0].namespaceSelector.matchLabels"
    found = reached(helm, f"{selector}.kubernetes\\.io/metadata\\.name=other")
    assert found["stranger", "management"] == found["stranger", "proxy"] == CLIENTS
    assert ("user-node", "management") not in found
    assert ("user-node", "proxy") not in found
    assert found["proxy", "management"] == {"clients"}
    assert found["chief", "management"] == {"clients", "rest", "inner"}


def test_jobs_of_a_session_s_namespace_reach_the_appliance_and_no_job_elsewhere(helm: Helm) -> None:
    values = [f"sessions.{name}.namespace={name}" for name in ("red", "blue")]
    found = reached(helm, *values, others=("red", "blue"))
    for name in ("job-in-red", "job-in-blue"):
        assert found[name, "management"] == {"clients", "rest", "inner"}
        assert found[name, "proxy"] == CLIENTS
        assert found["management", name] == found["proxy", name] == ALL_OF_JOB
        theirs = {target for source, target in found if source == name}
        assert theirs == {"management", "proxy"}
        assert {source for source, target in found if target == name} == theirs
    assert found["stranger", "management"] == CLIENTS  # a namespace that is no session's
