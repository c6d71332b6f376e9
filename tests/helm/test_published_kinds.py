"""What the chart makes of kinds of cert-manager, the Gateway API and the Prometheus operator.

The schemas are those that these projects publish, as the packages `@kubernetes-models/...` of npm
carry them (`deploy/setup.sh kube-schemas`). They say what is needed and of which type; fields that
they do not know they let pass.
"""

import copy
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helm.test_chart import FOREIGN, MATRIX
from tests.support.helm import ROOT, Helm, Settings

Faults = Callable[[list[dict[str, Any]]], list[str | None]]
SCRIPT = Path(__file__).with_name("published_kinds.mjs")
TLS_ROUTES = tuple(
    f"gateway.networking.k8s.io/{version}/TLSRoute" for version in ("v1alpha2", "v1alpha3", "v1")
)
GATEWAY = ("gateway.enabled=true", "gateway.parentRefs[0].name=edge")


@pytest.fixture(scope="session")
def faults() -> Faults:
    """Return a function that returns the fault of each object, or None."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("the published schemas are packages of npm: install Node.js")
    cache = Path(os.environ.get("WSC_KUBE_TOOLS") or Path.home() / ".cache/wsc/kube-tools")
    subprocess.run([ROOT / "deploy" / "setup.sh", "kube-schemas"], check=True, timeout=300)

    def find(objects: list[dict[str, Any]]) -> list[str | None]:
        done = subprocess.run(
            ["node", str(SCRIPT), str(cache / "schemas")],
            input=json.dumps(objects),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: list[str | None] = json.loads(done.stdout)
        return found

    return find


def foreign(helm: Helm, settings: Settings) -> list[dict[str, Any]]:
    return [found for found in helm.template(settings) if found["kind"] in FOREIGN]


def test_every_object_is_right_for_the_published_schemas(helm: Helm, faults: Faults) -> None:
    objects = [found for settings in MATRIX.values() for found in foreign(helm, settings)]
    assert {found["kind"] for found in objects} == FOREIGN
    assert faults(objects) == [None] * len(objects)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Certificate", "issuerRef"),
        ("TLSRoute", "rules"),
        ("ServiceMonitor", "endpoints"),
        ("PrometheusRule", "groups"),
    ],
)
def test_what_is_not_of_the_published_type_is_found(
    helm: Helm, faults: Faults, kind: str, name: str
) -> None:
    objects = [found for settings in MATRIX.values() for found in foreign(helm, settings)]
    broken = copy.deepcopy(next(found for found in objects if found["kind"] == kind))
    broken["spec"][name] = "no such thing"
    (fault,) = faults([broken])
    assert fault
    assert name in fault


@pytest.mark.parametrize(
    ("served", "version"),
    [
        ((), "v1"),
        (TLS_ROUTES[:1], "v1alpha2"),
        (TLS_ROUTES[:2], "v1alpha3"),
        (TLS_ROUTES, "v1"),
    ],
)
def test_a_route_is_of_the_newest_version_that_the_server_has(
    helm: Helm, faults: Faults, served: tuple[str, ...], version: str
) -> None:
    objects = foreign(helm, Settings(values=GATEWAY, api_versions=served))
    (route,) = objects
    assert route["apiVersion"] == f"gateway.networking.k8s.io/{version}"
    assert faults(objects) == [None]


def test_a_site_may_name_the_version_of_a_route(helm: Helm) -> None:
    values = (*GATEWAY, "gateway.version=v1alpha2")
    (route,) = foreign(helm, Settings(values=values, api_versions=TLS_ROUTES))
    assert route["apiVersion"] == "gateway.networking.k8s.io/v1alpha2"
