"""Runs as people read them."""

import datetime as dt

import pytest

from csctl.output.run_lines import commit_text, last_text, run_columns, run_facts, step_text
from csctl.output.table import render
from protos.wsc.v1.runs_pb2 import Run

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, ""),
        ({"samples per second": 3.0}, ""),
        ({"accuracy": 0.5, "loss": 1.25}, "loss 1.25"),
        ({"accuracy": 0.5, "eval loss": 2.0, "loss": 1.25}, "eval loss 2"),
        ({"b": 1.0, "a": 1e-9}, "a 1e-09"),
    ],
)
def test_the_value_that_tells_most_is_a_loss(values, text):
    assert last_text(Run(last_values=values)) == text


@pytest.mark.parametrize(
    ("step", "of", "text"), [(0, 0, "n/a"), (0, 40, "n/a"), (7, 0, "7"), (7, 40, "7 of 40")]
)
def test_how_far_a_run_is_is_told_once_it_has_a_step(step, of, text):
    assert step_text(Run(step=step, num_steps=of)) == text


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (Run(), ""),
        (Run(git_commit="a" * 40), "aaaaaaaaaaaa"),
        (Run(git_commit="a" * 40, is_dirty=False), "aaaaaaaaaaaa"),
        (Run(git_commit="a" * 40, is_dirty=True), "aaaaaaaaaaaa (changed)"),
    ],
)
def test_a_commit_says_whether_files_had_changed(run, text):
    assert commit_text(run) == text


def test_a_run_without_name_or_script_is_a_row_of_as_many_words_as_another():
    header, row = render(run_columns(NOW), [Run(run_id="wflow-a", phase="QUEUED")]).split("\n")
    assert header.split()[:5] == ["SESSION", "NAME", "RUN", "PHASE", "JOBS"]
    assert row.split() == ["n/a", "wflow-a", "QUEUED", "0", *["n/a"] * 5, "0"]


def test_only_what_is_known_of_a_run_is_a_line():
    assert list(run_facts(Run())) == []
    run = Run(argv=["python", "train.py"], array="array-a", index=0, message="lost")
    assert list(run_facts(run)) == [
        "Command: python train.py",
        "Array: array-a, index 0",
        "Reason: lost",
    ]


def test_a_command_reads_as_one_types_it_into_a_shell():
    (command,) = run_facts(Run(argv=["sh", "-c", "train --lr 1e-$WSC_ARRAY_INDEX", "it's", ""]))
    assert command == """Command: sh -c 'train --lr 1e-$WSC_ARRAY_INDEX' 'it'"'"'s' ''"""
