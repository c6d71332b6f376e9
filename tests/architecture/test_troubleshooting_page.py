"""docs/troubleshooting.md tells of texts that the code has; docs/ci.md of commands that exist."""

import ast
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def texts_of_the_code() -> str:
    """Return every text of the programs, with `{}` where a value goes; adjacent ones joined."""
    found = []
    for package in ("appliance", "csctl", "workers"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.JoinedStr):
                    found.append("".join(map(_part, node.values)))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return "\n".join(found)


def _part(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else "{}"


def test_every_text_of_the_page_is_in_the_code():
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    told = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(told) > 12
    code = texts_of_the_code()
    assert [text for text in told if text not in code] == []


def test_the_recipe_is_a_workflow_that_calls_targets_and_commands_that_exist():
    page = (ROOT / "docs" / "ci.md").read_text()
    (text,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    steps = yaml.safe_load(text)["jobs"]["train"]["steps"]
    commands = "\n".join(step["run"] for step in steps if "run" in step)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    (made,) = re.findall(r"make -C appliance (.+)", commands)
    assert set(made.split()) <= targets
    for word in ("appliance up --systems 2", "CSCONFIG_PATH=", "python train.py", "appliance down"):
        assert word in commands
