"""Values that are text stay text, whatever YAML would read in them: `123` is a name, too."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.cluster.kubernetes.options import parse_options
from tests.helm.test_chart import MATRIX
from tests.helm.test_chart_pods import pods_of
from tests.support.helm import Helm, Settings
from tests.support.values_reference import schema

WORD = "123"
"""What a cluster may call a class, a Secret or an account, and YAML takes for a number."""

PLAIN = "zz9"


def text_values(node: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of values that are free text."""
    for name, below in node.get("properties", {}).items():
        if below.get("type") == "string" and "enum" not in below:
            pattern = below.get("pattern", "")
            if all(re.search(pattern, word) for word in (PLAIN, WORD)):
                yield (*path, name)
        else:
            yield from text_values(below, (*path, name))


OTHERS = {("systems", "clusterFile"), ("nameOverride",), ("fullnameOverride",)}
"""A file, and what names of Services begin with."""


def written(word: str, file: Path) -> Path:
    """Write a file in which every value that is a name has this one."""
    values: dict[str, Any] = {}
    for *path, name in sorted(set(text_values(schema())) - OTHERS):
        inner = values
        for each in path:
            inner = inner.setdefault(each, {})
        inner[name] = word
    file.write_text(json.dumps(values))
    return file


def texts(part: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of an object with its path."""
    if isinstance(part, dict):
        for name, below in part.items():
            yield from texts(below, f"{path}.{name}")
    elif isinstance(part, list):
        for index, below in enumerate(part):
            yield from texts(below, f"{path}[{index}]")
    else:
        yield path, part


def numbers(plain: list[dict[str, Any]], other: list[dict[str, Any]]) -> list[str]:
    """Return where objects have something else than the word where others have the plain one."""
    assert len(plain) == len(other)
    found = []
    for first, second in zip(plain, other, strict=True):
        values = dict(texts(second))
        found += [
            f"{first['kind']} {path}: {values.get(path)!r}"
            for path, text in texts(first)
            if text == PLAIN and values.get(path) != WORD
        ]
    return found


@pytest.mark.parametrize("name", MATRIX)
def test_text_is_text(helm: Helm, tmp_path: Path, name: str) -> None:
    plain, other = (
        helm.template(MATRIX[name], "--values", str(written(each, tmp_path / each)))
        for each in (PLAIN, WORD)
    )
    assert numbers(plain, other) == []


@pytest.mark.parametrize("name", ["defaults", "sessions", "ports", "admission"])
def test_namespaces_and_releases_may_be_called_by_a_number(helm: Helm, name: str) -> None:
    given = ("--set", "fullnameOverride=wafer", "--namespace")
    plain, other = (
        helm.template(MATRIX[name], *given, each, release=each) for each in (PLAIN, WORD)
    )
    assert numbers(plain, other) == []


@pytest.mark.parametrize(("given", "written"), [("", None), ("-", ""), ("fast", "fast")])
def test_a_claim_has_the_default_class_or_a_class_or_none(
    helm: Helm, given: str, written: str | None
) -> None:
    values = (f"storage.storageClassName={given}", f"postgresql.storageClassName={given}")
    made = helm.template(Settings(values=values))
    (claim,) = (each for each in made if each["kind"] == "PersistentVolumeClaim")
    (database,) = (each for each in made if each["kind"] == "StatefulSet")
    (template,) = database["spec"]["volumeClaimTemplates"]
    for spec in (claim["spec"], template["spec"]):
        assert spec.get("storageClassName") == written


@pytest.mark.parametrize("program", ["helm", "helm4"])
def test_user_ids_of_a_range_are_in_every_pod(
    request: pytest.FixtureRequest, tmp_path: Path, program: str
) -> None:
    """YAML's numbers are floats to Helm, which would write `1.00068e+09`."""
    helm, first = request.getfixturevalue(program), 1000680000
    ids = {"runAsUser": first, "runAsGroup": first + 1}
    file = tmp_path / "values.json"
    file.write_text(json.dumps({"podSecurity": ids, "postgresql": ids}))
    made = helm.template(Settings(), "--values", str(file))
    contexts = [spec["securityContext"] for _, _, spec in pods_of(made)]
    assert len(contexts) == 8
    for each in contexts:
        assert {name: each[name] for name in ids} == ids
        assert each["fsGroup"] == first + 1
    (settings,) = (
        each["data"]["settings.yaml"] for each in made if "settings.yaml" in each.get("data", ())
    )
    options = parse_options(settings, source="the chart")
    assert (options.default_uid, options.group_id) == (first, first + 1)
