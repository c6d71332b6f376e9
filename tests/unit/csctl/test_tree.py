import subprocess
import sys
from pathlib import Path

import click
import pytest

from csctl.command_line.app import BRANCHES, app

ROOT = Path(__file__).parents[3]

HEAVY = ("numpy", "yaml", "pydantic", "typer", "torch", "importlib.metadata")
"""What no command that lists jobs needs, and what takes longer to import than it may take."""

PROGRAM = """
import sys
from csctl.command_line.running import main
main(["get", "jobs", "--csconfig", "/dev/null"])
print(*(name for name in sys.argv[1:] if name in sys.modules))
"""


def test_listing_jobs_imports_nothing_heavy() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, *HEAVY],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert answer.stdout.split() == []
    assert "/dev/null is not JSON" in answer.stderr


def test_an_alias_is_found_and_not_listed() -> None:
    group = app.get_command(click.Context(app), "get")
    assert isinstance(group, click.Group)
    context = click.Context(group)
    alias = group.get_command(context, "system")

    assert alias is not None
    assert alias.hidden
    assert "systems" in group.list_commands(context)


@pytest.mark.parametrize("name", sorted(BRANCHES))
def test_every_branch_leads_to_a_command(name: str) -> None:
    assert app.get_command(click.Context(app), name) is not None
