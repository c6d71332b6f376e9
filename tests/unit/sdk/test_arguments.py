"""The command line of cslc."""

from pathlib import Path

import pytest

from appliance.core.errors import UserError
from appliance.sdk import sdk_debug_shell
from appliance.sdk.arguments import parse


def test_options_stand_anywhere_with_a_space_or_an_equals_sign():
    one = parse(["--arch=wse3", "a.csl", "--fabric-dims=8,3", "-o", "made", "--channels", "2"])
    two = parse(["a.csl", "-o=made", "--fabric-dims", "8,3", "--arch", "wse3", "--channels=2"])
    assert one == two
    assert (one.main, one.output) == (Path("a.csl"), Path("made"))
    assert (one.options.architecture, one.options.fabric_dims) == ("wse3", (8, 3))


@pytest.mark.parametrize("release", ["1.1", "1.2", "1.3", "1.4", "2.10", "any"])
def test_programs_name_the_release_that_they_are_written_in(release):
    assert parse(["a.csl", f"--sdk-version={release}"]).options.dialect == release


@pytest.mark.parametrize(("tag", "release"), [("1.4.0", "1.4"), ("2.10.0", "2.10")])
def test_the_tag_of_a_release_names_it(tag, release):
    assert parse(["a.csl", f"--sdk-version={tag}"]).options.dialect == release


def test_version_says_which_releases_of_the_language_compile(capsys):
    with pytest.raises(SystemExit) as caught:
        parse(["--version"])
    assert caught.value.code == 0
    assert "CSL of SDK 1.1 to 2.10" in capsys.readouterr().out


def test_sdk_debug_shell_compiles_as_cslc_does(capsys, tmp_path):
    assert sdk_debug_shell.main(["compile", str(tmp_path / "missing.csl")]) == 2
    assert "cslc: error: There is no file" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["visualize", "--artifact_dir", "out"]])
def test_sdk_debug_shell_says_what_it_has(command, capsys):
    assert sdk_debug_shell.main(command) == 2
    assert "the only command here is `compile`" in capsys.readouterr().err


def test_defaults_are_wse2_and_the_directory_out():
    found = parse(["a.csl"])
    assert (found.output, found.options.architecture) == (Path("out"), "wse2")
    assert found.options.parameters == ()
    assert not found.options.memcpy


def test_parameters_add_up_in_their_order():
    found = parse(["a.csl", "--params=w:4,h:0x10", "--params=n:1", "--colors=c:5"])
    assert found.options.parameters == (("w", 4), ("h", 16), ("n", 1))
    assert found.options.colors == (("c", 5),)


def test_memcpy_without_a_number_of_channels_has_one():
    assert parse(["a.csl", "--memcpy"]).options.channels == 1
    assert parse(["a.csl", "--memcpy", "--channels=3"]).options.channels == 3


def test_import_paths_of_the_environment_come_behind_those_of_the_command(monkeypatch):
    monkeypatch.setenv("CSL_IMPORT_PATH", "c:/d::")
    found = parse(["a.csl", "--import-path", "a", "--import-path=b"])
    assert found.options.import_paths == ("a", "b", "c", "/d")
    monkeypatch.delenv("CSL_IMPORT_PATH")
    assert parse(["a.csl"]).options.import_paths == ()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--arch=wse2"], "required: file"),
        (["a.csl", "--arch=wse9"], "invalid choice: 'wse9'"),
        (["a.csl", "--frobnicate"], "nrecognized arguments: --frobnicate"),
        (["a.csl", "--fabric-dims=8"], "--fabric-dims is '8'"),
        (["a.csl", "--params=w"], "--params has 'w'"),
        (["a.csl", "--params=w:-1"], "gives w the value '-1'"),
        (["a.csl", "--params=w:1,w:2"], "gives w two values, 1 and 2"),
        (["a.csl", "--memcpy", "--channels=17"], "--channels is 17"),
        (["a.csl", "--width-west-buf=-1"], "--width-west-buf is -1"),
    ],
)
def test_what_is_wrong_with_a_command_line_is_named(argv, message):
    with pytest.raises(UserError) as caught:
        parse(argv)
    assert message in str(caught.value)
