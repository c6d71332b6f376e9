"""Definitions of the chart's kinds with their rules: what is added, and what the rules refuse."""

import copy
from pathlib import Path
from typing import Any

import cel
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from appliance.cluster.kubernetes.hooks.crds import (
    VERSION_ANNOTATION,
    apply_definitions,
    read_definitions,
    read_rules,
    with_rules,
)
from appliance.core.errors import UserError
from appliance.management.kubernetes.wsjob_objects import (
    FIXED_FIELDS,
    read_request,
    read_requested_edit,
)
from tests.support.helm import CHART

WSJOBS = "wsjobs.wsc.open-appliance.org"
RULES = read_rules(CHART / "files" / "crd-rules")
SPEC: dict[str, Any] = {
    "type": "driver",
    "session": "s",
    "user": {"uid": 7, "name": "ada"},
    "numSystems": 1,
    "workersPerSystem": 2,
    "activeDeadlineSeconds": 60,
    "driver": {"command": ["a", "b"], "workingDir": "/w", "environment": {"A": "1"}},
    "priority": "P1",
    "labels": {"a": "1"},
    "suspend": False,
    "ttlSecondsAfterFinished": 5,
}
CHANGES: dict[str, Any] = {
    "type": "execute",
    "session": "t",
    "user": {"uid": 8, "name": "ada"},
    "numSystems": 2,
    "workersPerSystem": 3,
    "activeDeadlineSeconds": 61,
    "driver": {"command": ["a"], "workingDir": "/w"},
    "priority": "P2",
    "labels": {},
    "suspend": True,
    "ttlSecondsAfterFinished": 9,
}


def broken_rules(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    """Return the messages of the rules for edits that an edit breaks."""
    context = {"self": new, "oldSelf": old}
    return [
        each["message"]
        for each in RULES[WSJOBS]["spec"]
        if "oldSelf" in each["rule"] and not cel.evaluate(each["rule"], context)
    ]


@pytest.mark.parametrize(
    ("spec", "is_whole"),
    [
        ({"type": "driver"}, False),
        ({"type": "driver", "numSystems": 2}, False),
        (SPEC, True),
        *(({"type": each}, True) for each in ("compile", "execute", "sdk-compile", "sdk-execute")),
    ],
)
def test_a_driver_without_a_driver_is_refused_by_one_sentence(
    spec: dict[str, Any], is_whole: bool
) -> None:
    broken = [
        each["message"]
        for each in RULES[WSJOBS]["spec"]
        if "oldSelf" not in each["rule"] and not cel.evaluate(each["rule"], {"self": spec})
    ]
    assert broken == (
        [] if is_whole else ["a driver needs spec.driver, with command and workingDir"]
    )
    if not is_whole:
        resource = {
            "metadata": {"name": "my-run"},
            "spec": {**spec, "user": {"uid": 7, "name": "a"}},
        }
        with pytest.raises(
            UserError, match=r"Job my-run does not say what it runs\. Set spec\.driver"
        ):
            read_request(resource)


@pytest.mark.parametrize("name", FIXED_FIELDS)
def test_a_rule_names_each_field_that_cannot_change(name: str) -> None:
    edited = {**SPEC, name: CHANGES[name]}
    assert broken_rules(edited, SPEC) == [f"{name} cannot be changed; create another wsjob"]
    if name != "type":  # which has a default
        without = {key: value for key, value in SPEC.items() if key != name}
        assert len(broken_rules(without, SPEC)) == len(broken_rules(SPEC, without)) == 1
        assert broken_rules(without, without) == []


@pytest.mark.parametrize("name", sorted(set(SPEC) - set(FIXED_FIELDS)))
def test_what_is_not_fixed_may_change_come_and_go(name: str) -> None:
    without = {key: value for key, value in SPEC.items() if key != name}
    for edited in ({**SPEC, name: CHANGES[name]}, without):
        assert broken_rules(edited, SPEC) == broken_rules(SPEC, edited) == []


def test_every_field_of_a_spec_is_fixed_or_may_change() -> None:
    (definition,) = [
        each
        for each in read_definitions(CHART / "files" / "crds")
        if each["metadata"]["name"] == WSJOBS
    ]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert set(schema["properties"]["spec"]["properties"]) == set(SPEC)


@given(
    changed=st.sets(st.sampled_from(sorted(CHANGES))),
    removed=st.sets(st.sampled_from(sorted(set(CHANGES) - {"type"}))),
)
def test_rules_and_controller_agree_on_every_edit(changed: set[str], removed: set[str]) -> None:
    edited = copy.deepcopy(SPEC) | {name: CHANGES[name] for name in changed}
    edited = {name: value for name, value in edited.items() if name not in removed}
    before = _wsjob(SPEC, generation=1, status={})
    from_now = {"observedGeneration": 1, "taken": _taken(before)}
    requested = read_requested_edit(_wsjob(edited, generation=2, status=from_now))
    is_ignored = requested is not None and requested.has_fixed_changes
    assert is_ignored == bool(broken_rules(edited, SPEC))


def test_the_definitions_of_the_chart_get_their_rules_and_keep_the_rest() -> None:
    for definition in read_definitions(CHART / "files" / "crds"):
        made = with_rules(definition, RULES)
        name = definition["metadata"]["name"]
        schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        rules = schema["properties"]["spec"].pop("x-kubernetes-validations", [])
        assert rules == RULES.get(name, {}).get("spec", [])
        assert made == definition
    assert set(RULES) <= {
        each["metadata"]["name"] for each in read_definitions(CHART / "files" / "crds")
    }


def test_rules_for_what_is_not_there_are_refused() -> None:
    (definition,) = [
        each
        for each in read_definitions(CHART / "files" / "crds")
        if each["metadata"]["name"] == WSJOBS
    ]
    with pytest.raises(UserError, match=r"wsjobs\.wsc.* has rules for specs, which it lacks"):
        with_rules(definition, {WSJOBS: {"specs": []}})


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "cannot be read"), ("- 1", "holds no object"), ("kind: Pod", "is no Custom")],
)
def test_a_file_that_is_no_definition_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "wrong.yaml").write_text(text)
    with pytest.raises(UserError, match=f"wrong.yaml {message}"):
        list(read_definitions(tmp_path))


def test_a_directory_without_rules_has_none(tmp_path: Path) -> None:
    assert read_rules(tmp_path) == {}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"a": {"spec": []}}))
    assert read_rules(tmp_path) == {"a": {"spec": []}}
    assert list(read_definitions(tmp_path)) == []


def _wsjob(spec: dict[str, Any], *, generation: int, status: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"generation": generation}, "spec": spec, "status": status}


def _taken(resource: dict[str, Any]) -> dict[str, Any]:
    """Return what the controller says of an object that it has taken over."""
    import appliance.management.kubernetes.wsjob_objects as objects

    taken: dict[str, Any] = objects.taken(resource)
    return taken


class Definitions:
    """An API server that has definitions alone."""

    def __init__(self, *there):
        self.there = {each["metadata"]["name"]: each for each in there}

    def version(self):
        return 1, 24

    def find(self, kind, name):
        return self.there.get(name)

    def create(self, kind, body):
        self.there[body["metadata"]["name"]] = body

    def patch(self, kind, name, body):
        there = self.there[name]
        metadata = {**there["metadata"], **body["metadata"]}
        self.there[name] = {**there, "metadata": metadata, "spec": body["spec"]}


@pytest.mark.parametrize(
    ("there", "ours", "is_taken"),
    [
        (None, "0.1.0", True),  # of a chart that did not say it yet
        ("0.1.0", "0.1.0", True),
        ("0.9.0", "0.10.0", True),
        ("0.10.0", "0.9.0", False),
        ("1.0.0", "0.99.99", False),
        ("1.0.0-rc.2", "1.0.0-rc.10", True),
        ("1.0.0", "1.0.0-rc.1", False),
        ("1.0.0-rc.1", "1.0.0", True),
        ("1.0.0+a", "1.0.0+b", True),
    ],
)
def test_a_chart_leaves_the_definitions_of_a_newer_one(there, ours, is_taken):
    """A rollback, or another release's upgrade, would else have the server drop newer fields."""
    directory = CHART / "files" / "crds"
    api, annotations = Definitions(), {VERSION_ANNOTATION: there} if there else {}
    for definition in read_definitions(directory):
        metadata = {"name": definition["metadata"]["name"], "annotations": annotations}
        api.create(None, {"metadata": metadata, "spec": "of another chart"})
    taken = apply_definitions(api, directory, ours)
    wanted = {each["metadata"]["name"]: each["spec"] for each in read_definitions(directory)}
    assert set(taken) == (set(wanted) if is_taken else set())
    for name, definition in api.there.items():
        assert definition["spec"] == (wanted[name] if is_taken else "of another chart")
        kept = ours if is_taken else there
        assert definition["metadata"]["annotations"][VERSION_ANNOTATION] == kept


def test_definitions_that_are_missing_are_made():
    api, directory = Definitions(), CHART / "files" / "crds"
    names = [each["metadata"]["name"] for each in read_definitions(directory)]
    assert apply_definitions(api, directory, "0.1.0") == names == list(api.there)
    for definition in api.there.values():
        assert definition["metadata"]["annotations"] == {VERSION_ANNOTATION: "0.1.0"}


def undescribed(schema, path):
    """Yield the fields of a schema that `kubectl explain` has no words for."""
    for name, field in (schema.get("properties") or {}).items():
        if not field.get("description"):
            yield f"{path}.{name}"
        yield from undescribed(field, f"{path}.{name}")
        yield from undescribed(field.get("items") or {}, f"{path}.{name}")


@pytest.mark.parametrize("kind", ["wsjobs", "wscsystems"])
def test_kubectl_explains_every_field(kind):
    path = Path(__file__).parents[3] / "helm" / "wsc-appliance" / "files" / "crds" / f"{kind}.yaml"
    (version,) = yaml.safe_load(path.read_text())["spec"]["versions"]
    assert list(undescribed(version["schema"]["openAPIV3Schema"], kind)) == []
