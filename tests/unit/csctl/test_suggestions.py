"""Commands that do not exist: what was meant is said."""

import pytest

from appliance.core.errors import UserError
from csctl.command_line.running import main
from csctl.time_limits import parse_time_limit


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("gett jobs", "csctl get"),
        ("get jbos", "csctl get jobs"),
        ("canel job wsjob-a", "csctl cancel"),
        ("cancel wsjob-a", "csctl cancel job wsjob-a"),
        ("get team/wsjob-a", "csctl get job team/wsjob-a"),
        ("job set-prio wsjob-a p1", "csctl job set-priority"),
    ],
)
def test_a_command_that_is_close_is_proposed(typed, meant, capsys):
    assert main(typed.split()) == 2
    assert f"Did you mean `{meant}`?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("submit --afternotok x -- true", "csctl submit --after afternotok:NAME"),
        ("submit --afterany=x -- true", "csctl submit --after afterany:NAME"),
        ("submit --num_csx 2 -- true", "csctl submit --systems N"),
        ("submit -J x -- true", "csctl submit --name NAME"),
        ("submit --job-name x -- true", "csctl submit --name NAME"),
        ("submit --time-limt 1h -- true", "csctl submit --time-limit"),
        ("get jobs --all", "csctl get jobs --all-states"),
    ],
)
def test_an_option_that_is_close_or_another_systems_is_proposed(typed, meant, capsys):
    assert main(typed.split()) == 2
    assert f"Did you mean `{meant}`?" in capsys.readouterr().err


@pytest.mark.parametrize("typed", ["get run x --watch", "get jobs --zzz", "get job x --job-name y"])
def test_an_option_that_is_close_to_none_leads_to_the_help(typed, capsys):
    assert main(typed.split()) == 2
    assert "--help`.\n" in capsys.readouterr().err


def test_what_is_close_to_nothing_leads_to_the_help(capsys):
    assert main(["frobnicate"]) == 2
    assert capsys.readouterr().err == "Error: No such command 'frobnicate'. See `csctl --help`.\n"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3600", 3600), ("90m", 5400), ("1h30m", 5400), ("2d", 172_800), ("1m5s", 65), ("1m5", 65)],
)
def test_a_time_limit_is_seconds_or_has_units(text, seconds):
    assert parse_time_limit(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0h", "soon", "1x", "-5", "1.5h", "5m1h"])
def test_a_time_limit_that_is_not_understood_is_refused(text):
    with pytest.raises(UserError, match="not understood"):
        parse_time_limit(text)
