"""`csctl get runs` and `csctl get run`."""

import datetime as dt
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from csctl.command_line.completion import run_names
from csctl.command_line.flags import TABLE_LIMIT, OutputOption, WatchFlag
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import argument, option
from csctl.commands.runs.named_runs import load_run
from csctl.labels import SELECTORS, parse_selection
from csctl.names import parse_job_name
from csctl.output.documents.output_formats import OutputFormat, Table, is_table
from csctl.output.run_lines import member_columns, run_columns, run_facts
from csctl.output.table import render
from csctl.watching import with_ends
from protos.wsc.v1.runs_pb2 import GetRunRequest, ListRunsRequest, Run
from protos.wsc.v1.runs_pb2_grpc import RunsStub


def list_runs(
    invocation: Invocation,
    *,
    all_states: Annotated[bool, option("-a", "--all-states", help="Finished runs too.")] = False,
    mine: Annotated[bool, option("-m", "--mine", help="My runs only.")] = False,
    labels: Annotated[
        list[str] | None,
        option(
            "-l", "--label", metavar="SELECTOR", help=f"Only runs with such labels: {SELECTORS}."
        ),
    ] = None,
    all_namespaces: Annotated[
        bool, option("-A", "--all-namespaces", help="Runs of all sessions.")
    ] = False,
    limit: Annotated[
        int | None,
        option(
            "--limit",
            min=0,
            metavar="N",
            help=f"At most N runs, 0 for all. [default: {TABLE_LIMIT} in tables, else all]",
        ),
    ] = None,
    watch: WatchFlag = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List runs that are not over, newest first: scripts, each with all jobs that it submits."""
    at_most = (TABLE_LIMIT if is_table(output) else 0) if limit is None else limit
    selection = parse_selection(labels or ())
    request = ListRunsRequest(
        with_finished=all_states,
        current_user_only=mine,
        labels=selection.label_filters,
        selectors=selection.selectors,
        limit=at_most + 1 if at_most else 0,  # one more tells that there are more
    )
    with invocation.connect() as client:
        request.session = "" if all_namespaces else client.namespace

        stub = RunsStub(client.channel)

        def fetch() -> Sequence[Run]:
            return client.call(stub.ListRuns, request).runs

        def table(runs: Sequence[Run]) -> Table:
            return partial(render, run_columns(invocation.now()), runs)

        if watch:
            look = with_ends(fetch, lambda run: client.call(stub.GetRun, GetRunRequest(name=run)))
            invocation.watch_list(look, table=table, output=output)
        runs = fetch()
    shown = runs[: at_most or None]
    invocation.show_list(shown, table=table(shown), output=output)
    if len(runs) > len(shown):
        invocation.note(f"{len(shown)} runs are shown; there are more, which --limit 0 shows.")


def get_run(
    invocation: Invocation,
    name: Annotated[
        str,
        argument(
            "NAME",
            help="The run: its id (wflow-...), or its name, or <session>/NAME.",
            complete=run_names,
        ),
    ],
    *,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show a run: what it executes, its jobs, and how far it is.

    A name is that of your unfinished run, else of your newest, else of somebody else's.
    """
    wanted = parse_job_name(name)
    with invocation.connect(wanted.session) as client:
        run = load_run(invocation, client, wanted)
    invocation.show(run, table=partial(_run_tables, run, invocation.now()), output=output)


def _run_tables(run: Run, now: dt.datetime, *, wide: bool, coloured: bool) -> str:
    rows = render(run_columns(now), [run], wide=wide, coloured=coloured)
    jobs = render(member_columns(now), run.jobs, wide=wide, coloured=coloured)
    return "\n\n".join([rows, jobs, "\n".join(run_facts(run))])
