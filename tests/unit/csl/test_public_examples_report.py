"""The report on public examples claims nothing that was not tried."""

from pathlib import Path

from tests.support.csl_examples import Example, Outcome, run, summary


def test_a_command_file_without_a_compile_is_counted_apart(tmp_path: Path) -> None:
    directory = tmp_path / "repository" / "tutorials" / "one"
    directory.mkdir(parents=True)
    commands = directory / "commands_wse3.sh"
    commands.write_text("cs_python run.py --arch=wse3\n")
    outcome = run(Example(tmp_path / "repository", commands), tmp_path)
    assert (outcome.is_good, outcome.is_tried) == (True, False)
    assert outcome.words == "no compile in its commands"


def test_a_layout_in_python_is_run_by_its_program(tmp_path: Path) -> None:
    commands = tmp_path / "commands_wse3.sh"
    commands.write_text("set -e\n%python_sdk_paint --arch=wse3\n")
    example = Example(tmp_path, commands)
    assert example.compiles
    assert example.script == "set -e\ncs_python run.py --arch=wse3\n"


def test_the_summary_counts_failures_and_what_was_not_tried() -> None:
    right, wrong = Outcome(True, "runs", 1.0), Outcome(False, "does not run", 1.0)
    skipped = Outcome(True, "no compile", 0.0, is_tried=False)
    assert summary([right, wrong, skipped]) == (
        "1 of 2 command files compile and run; 1 name no compile"
    )
    assert summary([right]) == "1 of 1 command files compile and run"
