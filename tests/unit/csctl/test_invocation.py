import io
from functools import partial
from pathlib import Path

import pytest

from csctl.command_line.invocation import Flags, Invocation
from csctl.output.documents.output_formats import OutputFormat
from csctl.output.jobs import job_columns
from csctl.output.table import render
from tests.support.csctl import NOW, FixedClock, make_job


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_on(stdout: io.StringIO, environ: dict[str, str], output: OutputFormat) -> str:
    jobs = [make_job("wsjob-a")]
    invocation = Invocation(environ=environ, clock=FixedClock(), stdout=stdout)
    invocation.show_list(jobs, table=partial(render, job_columns(NOW), jobs), output=output)
    return stdout.getvalue()


def test_a_terminal_gets_colours() -> None:
    assert "\x1b[" in shown_on(Terminal(), {}, OutputFormat.TABLE)


@pytest.mark.parametrize(
    ("stdout", "environ", "output"),
    [
        (io.StringIO(), {}, OutputFormat.TABLE),
        (Terminal(), {"NO_COLOR": "1"}, OutputFormat.TABLE),
        (Terminal(), {}, OutputFormat.JSON),
        (Terminal(), {}, OutputFormat.YAML),
    ],
    ids=["a pipe", "NO_COLOR", "json", "yaml"],
)
def test_nothing_else_gets_colours(
    stdout: io.StringIO, environ: dict[str, str], output: OutputFormat
) -> None:
    assert "\x1b[" not in shown_on(stdout, environ, output)


def test_a_flag_after_the_verb_overrides_the_one_before_it() -> None:
    before = Flags(csconfig=Path("a"), namespace="red", debug=1)

    assert before.overridden_by(Flags()) == before
    assert before.overridden_by(Flags(namespace="blue")).namespace == "blue"
