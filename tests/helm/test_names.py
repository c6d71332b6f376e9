"""Names that are as long as Kubernetes lets them be, and what pods of jobs are known as."""

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.helm.management_values import SESSIONS
from tests.helm.test_chart import MATRIX, of_kind
from tests.support.helm import Helm

LONGEST = {"a release": "r" * 53, "a release with dots": "r1." * 17 + "rr"}
"""Helm's own limit is 53."""

NAMESPACE = "n" * 63
OF_LABELS = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
OF_SERVICES = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
OF_ROLES = re.compile(r"[^/%]{1,253}")
OF_OBJECTS = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def labels(part: Any) -> list[str]:
    """Return every label, and what selects labels."""
    found: list[str] = []
    if isinstance(part, dict):
        for name, below in part.items():
            if name in ("labels", "matchLabels") and isinstance(below, dict):
                found += map(str, below.values())
            found += labels(below)
    elif isinstance(part, list):
        for each in part:
            found += labels(each)
    return found


def pattern_of(kind: str) -> re.Pattern[str]:
    if kind in ("Service", "Job"):
        return OF_SERVICES
    return OF_ROLES if "Role" in kind else OF_OBJECTS


@pytest.mark.parametrize("release", LONGEST.values(), ids=LONGEST)
@pytest.mark.parametrize("name", ["defaults", "sessions", "jobs", "ports", "monitoring"])
def test_the_longest_names_make_objects_that_kubernetes_takes(
    helm: Helm, name: str, release: str
) -> None:
    objects = helm.template(MATRIX[name], "--namespace", NAMESPACE, release=release)
    for found in objects:
        kind, metadata = found["kind"], found["metadata"]
        assert pattern_of(kind).fullmatch(metadata["name"]), (kind, metadata["name"])
        if kind == "StatefulSet":
            assert len(metadata["name"]) <= 52, "with a hash behind it it is a label"
        for label in labels(found):
            assert OF_LABELS.fullmatch(label), (kind, label)
    names = [
        (found["kind"], found["metadata"].get("namespace"), found["metadata"]["name"])
        for found in objects
    ]
    assert len(set(names)) == len(names)


def test_accounts_of_pods_have_the_annotations_that_are_given(helm: Helm) -> None:
    """Clouds give roles by them; every namespace of a session has an account of its own."""
    given = "serviceAccount.podsAnnotations.example\\.org/role=reader"
    settings = replace(SESSIONS, values=(*SESSIONS.values, given))
    objects = helm.template(settings)
    accounts = of_kind(objects, "ServiceAccount")
    of_pods = [each for each in accounts if each["metadata"]["name"].endswith("-pods")]
    assert len(of_pods) > 1
    for each in accounts:
        notes = each["metadata"].get("annotations") or {}
        assert (notes.get("example.org/role") == "reader") == (each in of_pods)
