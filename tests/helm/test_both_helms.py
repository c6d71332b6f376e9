"""The chart by Helm 3 and by Helm 4: the same objects, and errors that name the value."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helm.test_chart import MATRIX
from tests.support.helm import CHART, Helm, Settings

WRONG = {
    "systems.count": "0",
    "systems.cuont": "3",
    "tls.source": "none",
    "jobs.onDrain": "checkpoint",
    "jobs.resources.chief.cpus": "4",
    "jobs.roles.chef.schedulerName": "a",
    "sessions.a.namespace": "B",
    "sessions.B_.namespace": "b",
    "sessions.c.dataClaim": "b",
    "admissionPolicy.uids.ada": "0",
    "admissionPolicy.gids.a:b": "7",
}
SAID = (
    *("systems.count", "cuont", "tls.source", "jobs.onDrain", "jobs.resources.chief", "cpus"),
    *("jobs.roles", "chef", "sessions.a.namespace", "B_", "sessions.c", "namespace"),
    *("admissionPolicy.uids.ada", "admissionPolicy.gids", "a:b"),
)
"""Values that the schema refuses at once, and what it says of them."""

NEEDED = {
    "tls.source=secret": "tls.secretName",
    "postgresql.mode=external": "postgresql.external.host",
}
"""Values that need another."""

LABELS = ("app.kubernetes.io/component", "helm.sh/chart", "wsc.open-appliance.org/leader")
LABELLED = ("jobs", "jobs.roles.chief", "management", "proxy", "postgresql", "hooks")
KEYS = {
    "ports": ("port", "containerPort", "protocol"),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "containers": ("name",),
    "initContainers": ("name",),
    "imagePullSecrets": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
"""What tells entries of a list apart when the server merges them."""

MERGED = ("Deployment", "StatefulSet", "Job", "Pod", "Service")


@pytest.fixture(params=["helm", "helm4"])
def either(request: pytest.FixtureRequest) -> Helm:
    """Helm 3, then Helm 4."""
    found: Helm = request.getfixturevalue(request.param)
    return found


def refusal(helm: Helm, values: dict[str, str]) -> str:
    """Return what is said of wrong values, their paths as `--set` has them."""
    given = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    done = helm.run("template", "wsc", str(CHART), *given)
    assert done.returncode != 0
    return re.sub(
        r"at '/([^']*)'", lambda at: at[1].replace("/", ".").replace("~1", "/"), done.stderr
    )


def test_a_wrong_value_is_refused_by_its_name(either: Helm) -> None:
    said = refusal(either, WRONG)
    assert [words for words in SAID if words not in said] == [], said


@pytest.mark.parametrize("value", NEEDED)
def test_a_value_that_needs_another_names_it(either: Helm, value: str) -> None:
    name, _, given = value.partition("=")
    assert NEEDED[value] in refusal(either, {name: given})


def test_labels_of_a_site_cannot_take_a_pod_out_of_policies_budgets_and_services(
    either: Helm,
) -> None:
    labels = {f"{where}.podLabels.{label}": "web" for where in LABELLED for label in LABELS}
    said = refusal(
        either,
        {
            f"{where}.podLabels.{label.replace('.', chr(92) + '.')}": "web"
            for where in LABELLED
            for label in LABELS
        },
    )
    assert [name for name in labels if name not in said] == [], said


def test_both_helms_make_the_same_objects(
    helm4: Helm, made: dict[str, list[dict[str, Any]]]
) -> None:
    for name in ("defaults", "ports", "monitoring", "jobs"):
        assert helm4.template(MATRIX[name]) == made[name], name


def merged_lists(part: Any, path: str = "") -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the lists whose entries a server merges, with their paths."""
    if isinstance(part, list):
        for each in part:
            yield from merged_lists(each, path)
    elif isinstance(part, dict):
        for name, below in part.items():
            if name in KEYS and isinstance(below, list):
                yield f"{path}.{name}", below
            yield from merged_lists(below, f"{path}.{name}")


def test_entries_of_lists_have_all_that_a_server_merges_them_by(
    made: dict[str, list[dict[str, Any]]],
) -> None:
    """Helm 4 applies by the server, and one of 1.20 has no default for a port's protocol."""
    objects = [found for each in made.values() for found in each]
    for found in (each for each in objects if each["kind"] in MERGED):
        for path, entries in merged_lists(found["spec"], found["metadata"]["name"]):
            keys = [tuple(entry.get(key) for key in KEYS[path.split(".")[-1]]) for entry in entries]
            assert max(Counter(keys).values(), default=1) == 1, path
            if path.endswith("ports"):
                assert all("protocol" in entry for entry in entries), path


def test_objects_of_no_namespace_are_named_apart_for_all_releases(helm: Helm) -> None:
    """A namespace and a release that are joined can be split in one way only."""
    given = Settings(
        values=(
            "sessions.s.namespace=teams",
            "admissionPolicy.enabled=true",
        ),
        api_versions=("admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy",),
    )
    names: list[tuple[str, str]] = []
    for namespace, release in (("a", "b-wsc-appliance"), ("a-b", "wsc-appliance"), ("a-b", "b")):
        made = helm.template(given, "--namespace", namespace, release=release)
        names += [
            (each["kind"], each["metadata"]["name"])
            for each in made
            if each["kind"].startswith(("Cluster", "Validating"))
        ]
    assert len(names) == 3 * 9
    assert [each for each, count in Counter(names).items() if count > 1] == []
