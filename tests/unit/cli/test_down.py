"""`appliance down` names the jobs that it would end."""

import pytest
import typer
from typer.testing import CliRunner

from appliance.cli import status
from appliance.cli.unfinished_jobs import MOST_LINES, unfinished_jobs
from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import User
from tests.support.management import new_job, opened_state

ADA = User(uid=1000, gid=100, name="ada")


@pytest.fixture
def data(tmp_path):
    """Return a data directory in which one job runs, one waits and one has ended."""
    with opened_state(tmp_path) as state:
        for name, labels in (("wsjob-a", {"name": "gpt"}), ("wsjob-b", {}), ("wsjob-c", {})):
            record = state.jobs.create(new_job(name, user=ADA, labels=labels))
        state.jobs.change_phase(record, Phase.CANCELLED)
    return tmp_path


def test_jobs_that_have_not_ended_are_named_with_whose_they_are(data):
    assert unfinished_jobs(data) == [
        "wsjob-a  gpt  execute  QUEUED  of ada",
        "wsjob-b  execute  QUEUED  of ada",
    ]


def test_of_many_jobs_the_first_are_named_and_the_others_counted(tmp_path):
    with opened_state(tmp_path) as state:
        for number in range(MOST_LINES + 3):
            state.jobs.create(new_job(f"wsjob-{number:03}"))
    *lines, last = unfinished_jobs(tmp_path)
    assert (len(lines), last) == (MOST_LINES, "and 3 more")


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_who_says_no_keeps_the_appliance(data, answer, code):
    app = typer.Typer()
    app.command()(lambda: status.ask(data))
    result = CliRunner().invoke(app, input=answer)
    assert result.exit_code == code
    assert "wsjob-a  gpt" in result.output
    assert "wsjob-c" not in result.output
