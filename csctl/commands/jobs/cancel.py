"""`csctl cancel`: end jobs and release their resources."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from appliance.core.errors import UserError, WscError
from appliance.core.ids import ARRAY_PREFIX, JOB_PREFIX
from csctl.command_line.completion import run_names
from csctl.command_line.flags import JobNamesArgument, command, new_group
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import argument, option
from csctl.commands.runs.named_runs import load_run, load_run_or_job
from csctl.labels import SELECTORS, parse_selection
from csctl.names import JobName, parse_job_name
from csctl.output.documents.output_formats import OutputFormat
from csctl.output.jobs import job_columns
from csctl.output.table import render
from protos.csctl.api_pb2 import GetOptions
from protos.csctl.resources_pb2 import Job, JobList
from protos.wsc.v1.runs_pb2 import Run

group = new_group("Cancel jobs and runs.")


@command(group, "job", aliases=("jobs",), example="csctl cancel job wsjob-0001 wsjob-0002")
def cancel_job(
    invocation: Invocation,
    names: JobNamesArgument = None,
    *,
    mine: Annotated[bool, option("-m", "--mine", help="My unfinished jobs.")] = False,
    labels: Annotated[
        list[str] | None,
        option("-l", "--label", metavar="SELECTOR", help=f"Unfinished jobs with: {SELECTORS}."),
    ] = None,
    force: Annotated[
        bool,
        option("--force", help="The same as --yes; jobs that are named need neither."),
    ] = False,
    yes: Annotated[
        bool, option("--yes", help="Cancel what -l or -m finds; without it, only show it.")
    ] = False,
) -> None:
    """Cancel jobs; their systems and nodes are released.

    Either by their names, where a run's stands for all of it and an array's for its unfinished
    runs, or all of a session that -l and -m together find.
    """
    is_search = mine or bool(labels)
    if bool(names) == is_search:
        raise UserError("Name the jobs to cancel, or find them by -l or -m, not both.")
    if names:
        _cancel(invocation, [job for name in names for job in _named(invocation, name)])
        return
    found = _find(invocation, is_mine=mine, labels=labels or ())
    table = partial(render, job_columns(invocation.now()), found)
    if found:
        invocation.show_list(found, table=table, output=OutputFormat.TABLE)
    if not found or not (yes or force):
        what = "with --yes these would be canceled" if found else "nothing is canceled"
        invocation.note(f"{len(found)} unfinished job(s) found; {what}.")
        return
    # The jobs of a run end before their driver, which would else end them by itself.
    found.sort(key=lambda job: job.spec.type == "driver")
    _cancel(invocation, [JobName(job.meta.namespace, job.meta.name) for job in found])


@command(group, "run", aliases=("runs",), example="csctl cancel run gpt")
def cancel_run(
    invocation: Invocation,
    names: Annotated[
        list[str],
        argument("NAME...", help="Runs: wflow-..., or their names.", complete=run_names),
    ],
) -> None:
    """Cancel runs: their scripts, and whatever has not ended of their jobs."""
    _cancel(invocation, [job for name in names for job in _of_run(invocation, name)])


def _of_run(invocation: Invocation, text: str) -> Sequence[JobName]:
    """Return the jobs with which all of a run ends."""
    wanted = parse_job_name(text)
    with invocation.connect(wanted.session) as client:
        run = load_run(invocation, client, wanted)
    return _unfinished(run)


def _unfinished(run: Run) -> Sequence[JobName]:
    if not run.unfinished and run.phase == "RUNNING":
        raise UserError(
            f"Run {run.run_id} has no job now; {run.message}.", hint="End it in its terminal."
        )
    if not run.unfinished:
        raise UserError(f"Run {run.run_id} is {run.phase} already.")
    return [JobName(run.session, job) for job in run.unfinished]


def _named(invocation: Invocation, text: str) -> Sequence[JobName]:
    """Return the job of a name, what has not ended of a run, or the runs of an array."""
    name = parse_job_name(text)
    if name.name.startswith(JOB_PREFIX):
        return [name]
    if not name.name.startswith(ARRAY_PREFIX):
        with invocation.connect(name.session) as client:
            run = load_run_or_job(invocation, client, name)
        is_job = any(each.job == name.name for each in run.jobs)
        return [JobName(run.session, name.name)] if is_job else _unfinished(run)
    options = GetOptions(label_filters={"array": name.name})
    is_anywhere = name.session is None and invocation.flags.namespace is None
    with invocation.connect(name.session) as client:
        runs = client.get("jobs", JobList, options=options, in_all_sessions=is_anywhere)
    found = list(runs.items)
    if not found:
        raise UserError(
            f"Array {name.name} has no unfinished run.",
            hint=f"`csctl get jobs -a -l array={name.name}` lists those that have ended.",
        )
    return [JobName(job.meta.namespace, job.meta.name) for job in found]


def _find(invocation: Invocation, *, is_mine: bool, labels: Sequence[str]) -> list[Job]:
    selection = parse_selection(labels)
    options = GetOptions(
        current_user_only=is_mine,
        label_filters=selection.label_filters,
        selectors=selection.selectors,
    )
    with invocation.connect() as client:
        return list(client.get("jobs", JobList, options=options).items)


def _cancel(invocation: Invocation, jobs: Sequence[JobName]) -> None:
    """Cancel jobs one by one; one that cannot be cancelled does not keep the others."""
    failures: list[WscError] = []
    for job in jobs:
        try:
            with invocation.connect(job.session) as client:
                message = client.cancel_job(job.name)
        except WscError as error:
            if len(jobs) == 1:
                raise
            failures.append(error)
            invocation.note(f"{job.name}: {error}")
        else:
            said = message or "Job canceled successfully"
            invocation.write(said if len(jobs) == 1 else f"{job.name}: {said}")
    if failures:
        raise type(failures[0])(f"{len(failures)} of {len(jobs)} jobs were not canceled.")
