"""What pods of one role have of their own, from the chart's values to the pod."""

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from appliance.cluster.kubernetes import manifests
from appliance.cluster.kubernetes.options import KubernetesOptions, parse_options
from appliance.core.ids import Role
from tests.helm.test_chart import VERSIONS
from tests.support.helm import CHART, Helm
from tests.support.kube_jobs import make_gang

OWNER = {"apiVersion": "wsc.open-appliance.org/v1", "kind": "WsJob", "name": "a", "uid": "u-owner"}
VALUES = {
    "jobs": {
        "podLabels": {"team": "a"},
        "schedulerName": "ours",
        "priorityClassName": "low",
        "extraEnv": [{"name": "ALL", "value": "1"}],
        "affinity": {"nodeAffinity": {}},
        "tolerations": [{"key": "all", "operator": "Exists"}],
        "roles": {
            "chief": {
                "podLabels": {"team": "b", "tier": "fast"},
                "podAnnotations": {"note": "chief"},
                "priorityClassName": "high",
                "affinity": {"podAntiAffinity": {}},
                "tolerations": [{"key": "chief", "operator": "Exists"}],
                "extraEnv": [{"name": "CHIEF", "value": "1"}],
                "extraVolumes": [{"name": "scratch", "emptyDir": {}}],
                "extraVolumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            },
            "weight": {"schedulerName": "theirs"},
        },
    }
}


@pytest.fixture
def options(helm: Helm, tmp_path: Path) -> KubernetesOptions:
    (tmp_path / "values.json").write_text(json.dumps(VALUES))
    template = ("template", "wsc", str(CHART), "--values", str(tmp_path / "values.json"))
    done = helm.run(*template, "--show-only", "templates/kubernetes-settings.yaml")
    assert done.returncode == 0, done.stderr
    text = next(yaml.safe_load_all(done.stdout))["data"]["settings.yaml"]
    moved = text.replace("path: /var/lib/wsc", f"path: {tmp_path}")
    return parse_options(moved, source="the chart")


def pods_of(options: KubernetesOptions, directory: Path) -> dict[Role, dict[str, Any]]:
    records, gang = directory / "gangs", make_gang(directory)
    return {spec.role: manifests.pod(spec, OWNER, options, records) for spec in gang}


def test_a_role_adds_to_what_every_pod_has_and_replaces_what_can_be_but_one(
    options: KubernetesOptions, tmp_path: Path
) -> None:
    chief = pods_of(options, tmp_path)[Role.CHIEF]
    spec, (container,) = chief["spec"], chief["spec"]["containers"]
    assert (spec["schedulerName"], spec["priorityClassName"]) == ("ours", "high")
    assert spec["affinity"] == {"podAntiAffinity": {}}
    assert [each["key"] for each in spec["tolerations"]] == ["all", "chief"]
    assert {"ALL", "CHIEF"} <= {each["name"] for each in container["env"]}
    assert {"name": "scratch", "mountPath": "/scratch"} in container["volumeMounts"]
    assert {"name": "scratch", "emptyDir": {}} in spec["volumes"]
    assert chief["metadata"]["annotations"] == {"note": "chief"}
    labels = chief["metadata"]["labels"]
    assert (labels["team"], labels["tier"]) == ("b", "fast")


def test_other_roles_have_what_every_pod_has(options: KubernetesOptions, tmp_path: Path) -> None:
    pods = pods_of(options, tmp_path)
    weight, coordinator = pods[Role.WEIGHT]["spec"], pods[Role.COORDINATOR]["spec"]
    assert (weight["schedulerName"], weight["priorityClassName"]) == ("theirs", "low")
    assert (coordinator["schedulerName"], coordinator["priorityClassName"]) == ("ours", "low")
    assert "CHIEF" not in {each["name"] for each in coordinator["containers"][0]["env"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_pods_with_options_of_their_role_are_right_for_recent_kubernetes(
    options: KubernetesOptions, tmp_path: Path, version: str
) -> None:
    for pod in pods_of(options, tmp_path).values():
        body = {"apiVersion": "v1", "kind": "Pod", **pod}
        kubernetes_validate.validate(body, version, strict=True)
