"""A command loads what it needs, and says the same wherever it is run from."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from appliance.start import COMMANDS, app, load_command

LOADED = """
import sys
sys.argv = ["appliance", *sys.argv[1:]]
from appliance.start import main
try:
    main()
finally:
    print("LOADED", *sorted(sys.modules))
"""


def loaded(*arguments):
    """Return the modules that a process has loaded by the end of a command."""
    command = [sys.executable, "-c", LOADED, *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.partition("LOADED ")[2].split()


def test_a_proxy_loads_nothing_of_management_but_its_front():
    modules = loaded("proxy", "--help")
    ours = [name for name in modules if name.startswith(("appliance.management", "workers"))]
    assert ours == [
        "appliance.management",
        "appliance.management.front",
        "appliance.management.front.proxy_preface",
        "appliance.management.front.sni_proxy",
    ]
    assert not {"grpc", "fastapi", "torch", "numpy"} & set(modules)


@pytest.mark.parametrize("name", ["up", "status", "down"])
def test_who_starts_or_stops_management_does_not_load_it(name):
    modules = set(loaded(name, "--help"))
    others = {"grpc", "fastapi", "torch", "sqlalchemy", "kubernetes"}
    assert not {"appliance.management.server", *others} & modules


@pytest.mark.parametrize("words", [["--help"], ["no-such-command"], []])
def test_who_asks_for_no_command_waits_for_none(words):
    names = {each.module for each in COMMANDS.values()}
    assert not {"appliance.management", "grpc", "fastapi", "torch", *names} & set(loaded(*words))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name):
    command, place = load_command(name), COMMANDS[name]
    assert place.summary == " ".join(command.help.split("\n\n")[0].split())
    shown = CliRunner().invoke(app, ["--help"]).output
    assert (f"│ {name} " in shown) is not place.is_hidden
    alone = CliRunner().invoke(app, [name, "--help"])
    assert alone.exit_code == 0
    assert " ".join(place.summary.split()[:5]) in alone.output


def test_a_command_that_is_not_there_is_named():
    answer = CliRunner().invoke(app, ["no-such-command"])
    assert answer.exit_code == 2
    assert "No such command 'no-such-command'." in answer.output
