"""`csctl get jobs`."""

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated

from appliance.core.errors import UserError
from csctl.command_line.flags import TABLE_LIMIT, OutputOption, WatchFlag
from csctl.command_line.invocation import Invocation
from csctl.command_line.params import option
from csctl.labels import SELECTORS, parse_selection
from csctl.output.documents.output_formats import OutputFormat, Table, is_table
from csctl.output.jobs import job_columns
from csctl.output.table import render
from csctl.watching import with_ends
from protos.csctl.api_pb2 import GetOptions
from protos.csctl.resources_pb2 import Job, JobList

AllStatesFlag = Annotated[bool, option("-a", "--all-states", help="Finished jobs too.")]
AllNamespacesFlag = Annotated[
    bool, option("-A", "--all-namespaces", help="Jobs of all sessions that you may see.")
]


class JobOrder(StrEnum):
    """Value of `--sort-by`."""

    AGE = "age"
    PRIORITY = "priority"


class Direction(StrEnum):
    """Value of `--order`."""

    DESC = "desc"
    ASC = "asc"


SortOption = Annotated[
    JobOrder | None,
    option("--sort-by", "--sort", help="Order. [default: priority, then newest first]"),
]
DirectionOption = Annotated[
    Direction | None,
    option("--order", help="Highest priority or oldest first, or last. [default: desc]"),
]
PendingFlag = Annotated[
    bool, option("--pending-status", help="Show why jobs wait: a table is then a wide one.")
]


def list_jobs(
    invocation: Invocation,
    *,
    all_states: AllStatesFlag = False,
    mine: Annotated[bool, option("-m", "--mine", "--my-jobs", help="My jobs only.")] = False,
    labels: Annotated[
        list[str] | None,
        option(
            *("-l", "--label", "--labels"),
            metavar="SELECTOR",
            help=f"Only jobs with such labels: {SELECTORS}.",
        ),
    ] = None,
    workflow: Annotated[
        str, option("--workflow", metavar="NAME", help="Jobs of this workflow only.")
    ] = "",
    uid: Annotated[
        int | None, option("--uid", min=1, metavar="UID", help="Jobs of this user only.")
    ] = None,
    all_namespaces: AllNamespacesFlag = False,
    sort_by: SortOption = None,
    order: DirectionOption = None,
    descending: Annotated[bool, option("--desc", help="With --sort-by, the other way.")] = False,
    pending_status: PendingFlag = False,
    limit: Annotated[
        int | None,
        option(
            "--limit",
            "--max-jobs",
            min=0,
            metavar="N",
            help=f"At most N jobs, 0 for all. [default: {TABLE_LIMIT} in tables, else all]",
        ),
    ] = None,
    watch: WatchFlag = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List jobs that wait or run: by priority, then newest first."""
    if descending and sort_by is None:
        raise UserError("--desc is the other way of --sort-by.", hint="Give both, or neither.")
    if mine and uid is not None:
        raise UserError("--mine and --uid both say whose jobs.", hint="Give one of them.")
    if pending_status and output is OutputFormat.TABLE:
        output = OutputFormat.WIDE
    at_most = (TABLE_LIMIT if is_table(output) else 0) if limit is None else limit
    selection = parse_selection(labels or ())
    options = GetOptions(
        all_states=all_states,
        current_user_only=mine,
        label_filters=selection.label_filters,
        selectors=selection.selectors,
        workflow_id=workflow,
        uid=uid or 0,
        sort_by=sort_by or "",
        order_by=_order_by(order, descending=descending),
        limit=at_most + 1 if at_most else 0,  # one more tells that there are more
        show_pending_status=output is not OutputFormat.TABLE,
    )
    with invocation.connect() as client:

        def fetch() -> Sequence[Job]:
            return client.get(
                "jobs", JobList, options=options, in_all_sessions=all_namespaces
            ).items

        def table(jobs: Sequence[Job]) -> Table:
            return partial(render, job_columns(invocation.now()), jobs)

        if watch:
            look = with_ends(fetch, lambda name: client.get("job", Job, name=name))
            invocation.watch_list(look, table=table, output=output)
        jobs = fetch()
    shown = jobs[: at_most or None]
    invocation.show_list(shown, table=table(shown), output=output)
    if len(jobs) > len(shown):
        invocation.note(f"{len(shown)} jobs are shown; there are more, which --limit 0 shows.")


def _order_by(order: Direction | None, *, descending: bool) -> str:
    """Return the order in the words of the wire, where the oldest is the highest."""
    if descending and order is Direction.DESC:
        raise UserError("--desc and --order desc are opposites.", hint="Give one of them.")
    return Direction.ASC if descending else order or ""
