"""Every command of csctl that takes a job or a run, with every way to name one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.appliance_process import ApplianceProcess, running_appliance
from tests.support.run_terminal import Terminal


@dataclass(frozen=True)
class _Named:
    """A run of an array, whose script has submitted a job that waits.

    Attributes:
        terminal: Where its user types.
        names: What the run is called, by the kind of the name.
        driver: The job of its script.
        job: The one that its script has submitted.
    """

    terminal: Terminal
    names: dict[str, str]
    driver: str
    job: str

    @property
    def job_names(self) -> dict[str, str]:
        """What its job is called, by the kind of the name."""
        of_job = {"job": self.job, "session/job": f"job-operator/{self.job}"}
        return {**of_job, **self.names}

    def do(self, command: str) -> None:
        """Do to its job what a command says, if it says anything."""
        if command:
            self.terminal.run(*command.replace("JOB", self.job).split())


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Named]:
    with running_appliance(tmp_path_factory.mktemp("data"), "--systems", "1") as running:
        yield _named(running, tmp_path_factory.mktemp("work"))


def _named(appliance: ApplianceProcess, work_dir: Path) -> _Named:
    terminal = Terminal(appliance, work_dir)
    appliance.wait_ready(appliance.submit_execute())
    driver = terminal.submit("token", "--name", "sweep", "--array", "3")
    job = terminal.submit_as_script(appliance, num_systems=1)
    run = terminal.run("get", "run", "sweep.3", "-o", "name").strip()
    names = {"run": run, "session/run": f"job-operator/{run}"}
    names |= {"name": "sweep.3", "session/name": "job-operator/sweep.3"}
    return _Named(terminal, names, driver, job)


_OF_JOBS = {
    "get job NAME -o name": "JOB",
    "get job NAME wsjob-0 -o name": None,
    "explain job NAME -o jsonpath={.job}": "JOB",
    "job events NAME": "JOB",
    "job topology NAME": "",
    "cluster job-topology NAME": "",
    "job set-priority NAME p1": "JOB",
    "job hold NAME": "JOB",
    "job release NAME": "JOB",
    "log-export NAME": "JOB",
    "profile job NAME": None,
    "get job NAME --session 1": None,
}
"""Commands on one job: what they say, JOB for the one that the run is at; None for a refusal that
names the job, since a job that waits has no profile and no session."""
_BEFORE = {"job release NAME": "job hold JOB"}
_AFTERWARDS = {"job hold NAME": "job release JOB"}


@pytest.mark.parametrize("command", _OF_JOBS)
def test_a_command_on_a_job_takes_every_name_of_the_job_and_of_its_run(
    named: _Named, command: str
) -> None:
    wanted = _OF_JOBS[command]
    said = {}
    for kind, name in named.job_names.items():
        named.do(_BEFORE.get(command, ""))
        words = command.replace("NAME", name).split()
        said[kind] = named.terminal.run(*words, code=2 if wanted is None else 0)
        named.do(_AFTERWARDS.get(command, ""))
    if wanted is None:
        assert {named.job in text or "wsjob-0" in text for text in said.values()} == {True}, said
    else:
        assert all(wanted.replace("JOB", named.job) in text for text in said.values()), said
    # An archive's times and its export's id differ from call to call.
    if not command.startswith(("log-export", "job events")):
        assert len(set(said.values())) == 1, said


@pytest.mark.parametrize("command", ["logs NAME --list", "label job NAME seen=yes"])
def test_a_log_is_the_scripts_and_a_label_is_the_runs_where_a_run_is_named(
    named: _Named, command: str
) -> None:
    for kind, name in named.job_names.items():
        said = named.terminal.run(*command.replace("NAME", name).split())
        assert (named.driver in said) == (kind in named.names), (kind, said)
        if kind not in named.names:
            assert said in ("", f"job/{named.job} was patched\n"), "it has no log yet"


@pytest.mark.parametrize(
    "command", ["get run NAME -o name", "hold NAME", "resume NAME", "requeue NAME"]
)
def test_a_command_on_a_run_takes_every_name_of_the_run_and_of_its_jobs(
    named: _Named, command: str
) -> None:
    names = {"driver": named.driver} | named.names
    if command.startswith("requeue"):
        names = {"name": "sweep.3"}  # a second one may find it waiting
    run = named.names["run"]
    for name in names.values():
        if command.startswith("resume"):
            named.terminal.run("hold", "sweep.3")
        assert run in named.terminal.run(*command.replace("NAME", name).split())
        if command.startswith("hold"):
            named.terminal.run("resume", "sweep.3")


def _commands() -> list[str]:
    both = [*_OF_JOBS, "logs NAME", "attach NAME", "label job NAME a=b", "cancel job NAME"]
    runs = [f"{verb} NAME" for verb in ("get run", "cancel run", "hold", "resume", "requeue")]
    return [*both, *runs, "submit --after NAME -- true"]


@pytest.mark.parametrize("command", _commands())
def test_a_name_that_means_nothing_is_refused_in_one_sentence_by_every_command(
    named: _Named, command: str
) -> None:
    unknown = {
        "nothing": "There is no (job or )?run 'nothing' in session job-operator",
        "job-operator/nothing": "There is no (job or )?run 'nothing' in session job-operator",
        "wflow-nothing": "There is no (job or )?run 'wflow-nothing'",
        "sweep": "There is no (job or )?run 'sweep', but an array of that name, array-.*sweep.3",
        "../sweep.3": "is not a job's name",
    }
    for name, refusal in unknown.items():
        said = named.terminal.run(*command.replace("NAME", name).split(), code=2)
        assert re.search(refusal, said), said


@pytest.mark.parametrize("command", ["cancel job NAME", "cancel run NAME"])
def test_who_cancels_a_run_by_its_name_cancels_all_of_it(
    tmp_path: Path, command: str, named: _Named
) -> None:
    job = named.terminal.submit("wait", "--name", "ends")
    named.terminal.run(*command.replace("NAME", "ends").split())
    assert "CANCELLED" in named.terminal.run("get", "job", job)
    for verb, change in (("hold", "hold"), ("resume", "resume"), ("requeue", "queue again")):
        said = named.terminal.run(verb, "ends", code=2)
        assert f"is CANCELLED; there is nothing to {change}. Submit it again." in said
    said = named.terminal.run("job", "hold", "ends", code=2)
    assert f"Job {job} is CANCELLED; there is nothing to hold." in said
