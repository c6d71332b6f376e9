"""Every pod of the chart: where it goes, what it may do, and what its values say of it."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helm.test_chart import MATRIX, of_kind
from tests.support.helm import CHART, Helm, Settings

PARTS = {"management": "management", "proxy": "proxy", "postgresql": "postgresql"}
"""Part of the values by component; jobs of the chart, and its test, go where management goes."""

COMPONENTS = {*PARTS, "crds", "certificates", "password", "end-jobs", "test"}
MESH = {"sidecar.istio.io/inject": "false"}
"""With a sidecar beside it, a job of the chart would never end."""

RESTRICTED_VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret"}
"""Kinds of volumes that the Pod Security Standard `restricted` allows, and the chart may use."""


def pods_of(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield component, metadata and spec of every pod."""
    for found in objects:
        pod = found["spec"]["template"] if found["kind"] in _TEMPLATED else found
        if found["kind"] in {*_TEMPLATED, "Pod"}:
            labels = pod["metadata"]["labels"]
            yield labels["app.kubernetes.io/component"], pod["metadata"], pod["spec"]


_TEMPLATED = {"Deployment", "StatefulSet", "Job"}


def placed(part: str) -> dict[str, Any]:
    return {
        "nodeSelector": {"pool": part},
        "tolerations": [{"key": part, "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": part,
        "podAnnotations": {"note": part},
        "podLabels": {"team": part},
    }


@pytest.fixture(scope="module")
def found(
    helm: Helm, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return metadata and spec by component, with values of its own for each part."""
    values = {part: placed(part) for part in PARTS}
    values["imagePullSecrets"] = [{"name": "registry"}]  # type: ignore[assignment]
    limits = {"limits": {"cpu": "1", "memory": "2Gi"}}
    values["hooks"] = {"resources": limits, "podLabels": MESH, "podAnnotations": {"note": "hook"}}
    file = tmp_path_factory.mktemp("values") / "values.json"
    file.write_text(json.dumps(values))
    objects = helm.template(Settings(), "--values", str(file))
    return {component: (metadata, spec) for component, metadata, spec in pods_of(objects)}


def test_each_pod_goes_where_the_values_of_its_part_say(
    found: dict[str, tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    """A cluster whose nodes are all tainted runs the hooks, too, or nothing is ever installed."""
    assert set(found) == COMPONENTS
    for component, (metadata, spec) in found.items():
        part = PARTS.get(component, "management")
        for name in ("nodeSelector", "tolerations", "affinity", "priorityClassName"):
            assert spec[name] == placed(part)[name], (component, name)
        assert spec["imagePullSecrets"] == [{"name": "registry"}], component
        if component in PARTS:
            assert metadata["annotations"]["note"] == part
            assert metadata["labels"]["team"] == part


def test_what_the_chart_s_own_jobs_use_is_a_value(
    found: dict[str, tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    """A quota of cores refuses every pod that does not say how many it takes."""
    for component in COMPONENTS - set(PARTS):
        (container,) = found[component][1]["containers"]
        assert container["resources"]["limits"] == {"cpu": "1", "memory": "2Gi"}, component
        assert found[component][0]["labels"].items() >= MESH.items(), component
        assert found[component][0]["annotations"]["note"] == "hook", component


@pytest.mark.parametrize("name", MATRIX)
def test_pods_are_told_of_no_service_and_have_volumes_that_restricted_allows(
    made: dict[str, list[dict[str, Any]]], name: str
) -> None:
    """A Service named `wsc` would give them a variable WSC_PORT."""
    for component, _, spec in pods_of(made[name]):
        assert spec["enableServiceLinks"] is False, component
        kinds = {kind for volume in spec.get("volumes", ()) for kind in set(volume) - {"name"}}
        assert kinds <= RESTRICTED_VOLUMES, component


def test_managements_of_which_one_waits_are_apart_and_leave_one_at_a_time(helm: Helm) -> None:
    objects = helm.template(Settings(values=("management.replicas=2",)))
    (spec,) = (spec for name, _, spec in pods_of(objects) if name == "management")
    (spread,) = spec["topologySpreadConstraints"]
    (budget,) = (
        each
        for each in of_kind(objects, "PodDisruptionBudget")
        if each["metadata"]["name"].endswith("-management")
    )
    assert spread["labelSelector"] == budget["spec"]["selector"]
    assert budget["spec"]["maxUnavailable"] == 1
    alone = of_kind(helm.template(Settings()), "PodDisruptionBudget")
    assert not [each for each in alone if each["metadata"]["name"].endswith("-management")]


@pytest.mark.parametrize("release", ["a" * 53, f"{'a' * 40}-{'b' * 12}", "v1.2", "wsc-appliance"])
def test_names_are_as_long_as_kubernetes_takes_them(helm: Helm, release: str) -> None:
    """Of Jobs and Services they are labels; of a StatefulSet one with a hash behind it."""
    longest = {"Job": 63, "Service": 63, "StatefulSet": 52, "Pod": 63}
    for each in helm.template(MATRIX["ports"], release=release):
        name = each["metadata"]["name"]
        assert len(name) <= longest.get(each["kind"], 253), name
        assert each["kind"] != "Service" or "." not in name
        labels = itertools.chain(
            each["metadata"]["labels"].values(),
            *(pod["labels"].values() for _, pod, _ in pods_of([each])),
        )
        assert all(len(value) <= 63 for value in labels), name


def test_a_release_whose_services_could_have_no_name_is_refused(helm: Helm) -> None:
    done = helm.run("template", "1st", str(CHART))
    assert done.returncode != 0
    assert "would be named 1st-wsc-appliance-..., and names of Services begin with" in done.stderr
    assert "set fullnameOverride" in done.stderr
