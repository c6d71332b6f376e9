"""A setting has its default in `appliance/management/options`, and nowhere below it."""

import ast
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path

import pytest

from appliance.core.pods.pod_options import ChiefPodOptions, CoordinatorPodOptions, PodOptions
from appliance.management.options.settings_by_group import RunOptions

ROOT = Path(__file__).parents[2]
SETTINGS = "appliance/management/options"

NO_SETTINGS = {
    "CompileOptions": "of cslc, which is a program of its own and needs no appliance",
    "SimulatorOptions": "of the fabric, which cs_python runs without an appliance",
    "KubernetesOptions": "the fields of the file of --kubernetes, which nothing else holds",
    "NotifyOptions": "the fields of the file of --notify, which nothing else holds",
    "ProviderOptions": "the fields of the file of --oidc, which nothing else holds",
    "RoleOptions": "a part of KubernetesOptions, whose file names what is to be changed alone",
    "NetworkOptions": "measured constants of the transport, which nobody sets",
}
"""Classes of options that are read or chosen where they are defined."""

POD_OPTIONS = "appliance/core/pods/pod_options.py"
"""Its defaults are what a pod is told whose spec an older release wrote (see `options_text`)."""


@cache
def classes() -> list[tuple[str, ast.ClassDef]]:
    """Return every class named ...Options, with its module's path."""
    found: list[tuple[str, ast.ClassDef]] = []
    for package in ("appliance", "workers", "csctl"):
        for path in sorted((ROOT / package).rglob("*.py")):
            where = str(path.relative_to(ROOT))
            if where.startswith(SETTINGS) or where == POD_OPTIONS:
                continue
            text = path.read_text()
            if "Options" not in text:
                continue
            found += [
                (where, node)
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.ClassDef) and node.name.endswith("Options")
            ]
    return found


def defaults(node: ast.ClassDef) -> list[str]:
    return [
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and each.value is not None
    ]


def test_options_below_the_settings_have_no_defaults():
    found = {
        f"{where}: {node.name}.{name}"
        for where, node in classes()
        if node.name not in NO_SETTINGS
        for name in defaults(node)
    }
    assert not found, "Give the default to the setting, and require the field here."


def test_every_exception_is_a_class_that_needs_it():
    needed = {node.name for _, node in classes() if defaults(node)}
    assert set(NO_SETTINGS) == needed


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (PodOptions, {"stall_seconds": "stall_seconds"}),
        (CoordinatorPodOptions, {}),
        (ChiefPodOptions, {"device": "csx_device"}),
    ],
)
def test_a_pod_of_an_older_release_is_told_the_settings_defaults(kind, names):
    settings = {each.name: each.default for each in fields(RunOptions)}
    own = {each.name: each.default for each in fields(kind)}
    shared = {**{name: name for name in own if name in settings}, **names}
    assert shared
    for name, setting in shared.items():
        assert own[name] is not MISSING
        assert own[name] == settings[setting], name
