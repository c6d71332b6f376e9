"""Which detached runs are refused because their program is nowhere."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.core.cluster.drivers import DriverSpec
from appliance.core.errors import UserError
from appliance.management.jobs.program_check import ProgramCheck, check_program


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "train").touch(mode=0o755)
    environment = {"PATH": f"/nowhere:{tmp_path}/bin"}
    return DriverSpec(argv=("train",), work_dir=str(tmp_path), environment=environment)


@pytest.mark.parametrize("program", ["train", "bin/train", "./bin/train", "/bin/sh"])
def test_a_program_that_is_there_is_accepted(spec, program):
    check_program(replace(spec, argv=(program, "x")))


def test_without_path_the_usual_folders_are_looked_through(spec):
    check_program(replace(spec, argv=("sh",), environment={}))


@pytest.mark.parametrize("program", ["nosuch", "bin/nosuch", "/nosuch", "bin/train/x"])
def test_a_program_that_is_nowhere_is_refused_by_name(spec, program):
    with pytest.raises(UserError, match=f"no program '{program}'"):
        check_program(replace(spec, argv=(program,)))


@pytest.mark.parametrize(
    ("program", "what"),
    [
        ("./train.py", "not executable, by anybody"),
        ("bin", None),
        ("./bin", "a directory"),
        ("/tmp", "a directory"),
        ("train.py", None),
    ],
)
def test_what_nobody_can_execute_is_refused(spec, tmp_path, program, what):
    (tmp_path / "train.py").touch(mode=0o644)
    spec = replace(spec, argv=(program,))
    with pytest.raises(UserError) as caught:
        check_program(spec)
    assert str(caught.value).startswith(
        f"{program!r} in {tmp_path} is {what}." if what else f"There is no program {program!r} on"
    )
    assert "python train.py" in caught.value.hint


def test_a_program_further_down_the_path_is_found_behind_what_is_none(spec, tmp_path):
    (tmp_path / "first" / "train").mkdir(parents=True)
    environment = {"PATH": f"{tmp_path}/first:{tmp_path}/bin"}
    check_program(replace(spec, environment=environment))


def test_a_program_that_was_found_is_looked_for_again_after_ten_seconds(spec):
    seconds = iter([0.0, 0.0, 9.0, 10.0])
    programs = ProgramCheck(lambda: next(seconds))
    asyncio.run(programs.check(spec))
    (Path(spec.work_dir) / "bin" / "train").unlink()
    asyncio.run(programs.check(spec))
    with pytest.raises(UserError, match="no program 'train'"):
        asyncio.run(programs.check(spec))


def test_that_one_user_has_a_program_says_nothing_of_another_folder(spec, tmp_path):
    programs = ProgramCheck()
    asyncio.run(programs.check(replace(spec, argv=("bin/train",))))
    with pytest.raises(UserError, match="no program 'bin/train'"):
        asyncio.run(programs.check(replace(spec, argv=("bin/train",), work_dir="/")))
