"""The hooks of git run the commands of the Makefile, with the tools of its environment."""

import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CONFIG = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
(REPOSITORY,) = CONFIG["repos"]
HOOKS = {hook["id"]: hook for hook in REPOSITORY["hooks"]}
TARGETS = {
    "ruff": "fix",
    "ruff-format": "fix",
    "layers": "layers",
    "protos": "protos",
    "types": "types",
}
"""Which target has the command of each hook."""


def recipes() -> dict[str, list[str]]:
    """Return the commands of every target of the Makefile."""
    found: dict[str, list[str]] = {}
    target = ""
    for line in (ROOT / "Makefile").read_text().splitlines():
        if line.startswith("\t"):
            command = line.strip().replace("$(PY)", "$(VENV)/bin/python")
            found[target].append(command.replace("$(VENV)", ".venv"))
        elif ":" in line and not line.startswith((".", "#", " ")):
            target = line.partition(":")[0]
            found[target] = []
    return found


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_runs_the_command_of_a_target(hook: str) -> None:
    entry, takes_names = HOOKS[hook]["entry"], HOOKS[hook].get("pass_filenames", True)
    assert (f"{entry} ." if takes_names else entry) in recipes()[TARGETS[hook]]


def test_what_make_fix_repairs_is_what_make_lint_holds() -> None:
    repaired = [line.replace(" --fix", "") for line in recipes()["fix"]]
    assert repaired == [line.replace(" --check", "") for line in recipes()["lint"]]


def test_hooks_download_nothing_and_types_wait_for_a_push() -> None:
    assert REPOSITORY["repo"] == "local"
    assert {hook["language"] for hook in HOOKS.values()} == {"system"}
    late = [name for name, hook in HOOKS.items() if hook["stages"] != ["pre-commit"]]
    assert (late, HOOKS["types"]["stages"]) == (["types"], ["pre-push"])


def test_pre_commit_is_a_tool_of_the_environment_and_installed_by_make() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "pre-commit" in project["optional-dependencies"]["dev"]
    assert recipes()["hooks"] == [".venv/bin/pre-commit install"]
    assert CONFIG["default_install_hook_types"] == ["pre-commit", "pre-push"]
