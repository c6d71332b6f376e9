"""The command that compiles a file, found beside it."""

from pathlib import Path

import pytest

from appliance.sdk.language_server import command
from appliance.sdk.language_server.commands import nearby

CASES = [
    ("cslc layout.csl --fabric-dims=8,3 --params=n:4", (("n", 4),)),
    (
        "set -e\ncslc layout.csl \\\n  --params=n:4,m:5 -o out && cs_python run.py",
        (("n", 4), ("m", 5)),
    ),
    ("N=4\ncslc layout.csl --params=n:$N", (("n", 4),)),
    ('cslc "$here/layout.csl" --arch="${1:-wse3}" --params="n:${N:-4}"', (("n", 4),)),
    ("sdk_debug_shell compile layout.csl --params=n:4 > log", (("n", 4),)),
    ("if true; then cslc layout.csl --params=n:4; fi", (("n", 4),)),
    ("(cd x && /opt/bin/cslc layout.csl --params=n:4)", (("n", 4),)),
]


@pytest.mark.parametrize(("script", "params"), CASES)
def test_a_command_of_a_script_tells_the_program(
    tmp_path: Path, script: str, params: tuple[tuple[str, int], ...]
) -> None:
    (tmp_path / "commands.sh").write_text(script)
    (found,) = nearby(tmp_path / "src" / "pe.csl", tmp_path)
    assert found.main == str(tmp_path / "layout.csl")
    assert found.options.parameters == params


@pytest.mark.parametrize(
    "script",
    ["# cslc layout.csl", "echo hello", "cslc layout.csl --params=n:$1", "cslc --nope", 'cslc "a'],
)
def test_what_is_no_whole_command_counts_for_nothing(tmp_path: Path, script: str) -> None:
    (tmp_path / "commands.sh").write_text(script)
    assert nearby(tmp_path / "pe.csl", tmp_path) == []


def test_the_nearest_script_comes_first_and_none_above_the_root(tmp_path: Path) -> None:
    inner = tmp_path / "root" / "inner"
    inner.mkdir(parents=True)
    for number, directory in enumerate((inner, tmp_path / "root", tmp_path)):
        (directory / "run.sh").write_text(f"cslc layout.csl --params=n:{number}")
    found = nearby(inner / "pe.csl", tmp_path / "root")
    assert [each.options.parameters[0][1] for each in found] == [0, 1]


def test_without_the_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "appliance.sdk.language_server.server", None)
    assert command.main([]) == 2
    assert "install the extra 'editors'" in capsys.readouterr().err
