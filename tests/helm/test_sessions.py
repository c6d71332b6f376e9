"""Sessions with a namespace of their own, as helm renders them."""

from typing import Any

import kubernetes_validate
import pytest
import yaml

from appliance.cluster.kubernetes.options import parse_options
from tests.helm.management_values import SESSIONS
from tests.helm.test_chart import VERSIONS, of_kind
from tests.support.helm import CHART, ROOT, Helm


@pytest.fixture(scope="module")
def objects(helm: Helm) -> list[dict[str, Any]]:
    return helm.template(SESSIONS)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("sessions.a.namespace=default", "namespace default is that of the release"),
        ("sessions.a.namespace=b,sessions.c.namespace=b", "is that of session a"),
        ("sessions.a.namespace=b,jobs.launcher=embedded", "jobs have no pods"),
    ],
)
def test_a_mapping_that_cannot_be_is_refused(helm: Helm, value: str, message: str) -> None:
    done = helm.run("template", "wsc", str(CHART), "--set", value)
    assert done.returncode != 0
    assert message in done.stderr


def test_a_session_s_namespace_gets_the_role_less_what_is_the_release_s_alone(
    objects: list[dict[str, Any]],
) -> None:
    roles = of_kind(objects, "Role")
    (own,) = [each for each in roles if each["metadata"]["name"] == "wsc-wsc-appliance"]
    expected = {
        (group, resource, verb)
        for rule in own["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if resource != "leases" and not resource.startswith("wscsystems")
    }
    for namespace in ("team-research", "classes"):
        here = [each for each in objects if each["metadata"].get("namespace") == namespace]
        (role,) = [each for each in of_kind(here, "Role") if "-session" in each["metadata"]["name"]]
        got = {
            (group, resource, verb)
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        assert got == expected
        subjects = [each["subjects"] for each in of_kind(here, "RoleBinding")]
        assert {each["namespace"] for found in subjects for each in found} == {"wafer"}
        assert {each["kind"] for each in here} >= {"PodDisruptionBudget", "NetworkPolicy"}
    (everywhere,) = [
        each for each in of_kind(objects, "ClusterRole") if "unmapped" in each["metadata"]["name"]
    ]
    assert [each["resources"] for each in everywhere["rules"]] == [["wsjobs"], ["events"]]
    (binding,) = of_kind(objects, "ValidatingAdmissionPolicyBinding")
    (selected,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert selected["values"] == ["wafer", "classes", "team-research"]


def test_a_session_s_options_replace_those_of_jobs(objects: list[dict[str, Any]]) -> None:
    maps = of_kind(objects, "ConfigMap")
    (config,) = [found for found in maps if found["metadata"]["name"].endswith("-jobs")]
    options = parse_options(config["data"]["settings.yaml"], source="the chart")
    assert options.tell_unmapped
    research, teaching = options.of_session("research"), options.of_session("teaching")
    assert research.namespace == "team-research"
    assert research.data_volume.claim == "shared"
    assert teaching.data_volume.claim == options.data_volume.claim
    assert [volume.claim for volume in teaching.user_volumes] == ["pupils"]
    assert (research.kueue_queue, teaching.kueue_queue) == ("", "lessons")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["team-namespace.yaml", "user-node.yaml"])
def test_examples_are_right_for_recent_kubernetes(name: str, version: str) -> None:
    for found in yaml.safe_load_all((ROOT / "examples" / name).read_text()):
        kubernetes_validate.validate(found, version, strict=True)


def test_every_namespace_whose_wsjobs_are_the_release_s_has_one_object_that_says_so(
    objects: list[dict[str, Any]],
) -> None:
    """Of the same name for every release, so that Helm refuses the namespace to a second one."""
    owners = [each for each in of_kind(objects, "ConfigMap") if "owner" in each["metadata"]["name"]]
    assert {each["metadata"]["name"] for each in owners} == {"wsc-appliance-owner"}
    namespaces = [each["metadata"]["namespace"] for each in owners]
    roles = [each["metadata"].get("namespace", "wafer") for each in of_kind(objects, "Role")]
    assert sorted(namespaces) == sorted({"wafer", *roles})
    assert {each["data"]["release"] for each in owners} == {"wsc in namespace wafer"}
