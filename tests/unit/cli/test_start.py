"""A command loads what it needs, and says the same wherever it is run from."""

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from appliance.cli.all_commands import app
from appliance.start import COMMANDS, command_line

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
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return answer.stdout.partition("LOADED ")[2].split()


def test_a_proxy_loads_nothing_of_management_but_its_front():
    modules = loaded("proxy", "--help")
    ours = [name for name in modules if name.startswith(("appliance.management", "workers"))]
    assert ours == [
        "appliance.management",
        "appliance.management.front",
        "appliance.management.front.client_hello",
        "appliance.management.front.sni_proxy",
    ]
    assert not {"grpc", "fastapi", "torch", "numpy"} & set(modules)


@pytest.mark.parametrize("name", ["up", "status", "down"])
def test_who_starts_or_stops_management_does_not_load_it(name):
    modules = set(loaded(name, "--help"))
    assert not {"appliance.management.server", "grpc", "fastapi", "torch"} & modules


def test_the_help_is_that_of_the_whole_program():
    assert "appliance.management.server" in loaded("--help")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_alone_is_that_of_the_whole_program(name):
    both = [CliRunner().invoke(each, [name, "--help"]) for each in (app, command_line(name))]
    assert [answer.exit_code for answer in both] == [0, 0]
    assert both[0].output.split() == both[1].output.split()


def test_every_command_of_a_module_of_its_own_is_loaded_alone():
    names = [each.name for each in typer.main.get_group(app).commands.values()]
    assert set(COMMANDS) == set(names)
