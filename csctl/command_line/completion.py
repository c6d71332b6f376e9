"""Shell completion of names that only the cluster knows.

A shell that hangs is worse than one without completions, so the cluster gets half a second, and no
error is shown.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click
from click.shell_completion import CompletionItem

from appliance.core.errors import WscError
from csctl.command_line.version import csctl_version
from csctl.connection.client import ClusterClient, connect
from csctl.connection.config import cluster_access, config_path, load_document
from csctl.connection.identity import current_user
from protos.csctl.api_pb2 import GetOptions
from protos.csctl.resources_pb2 import Job, JobList, JobStatus
from protos.wsc.v1.runs_pb2 import ListRunsRequest, Run
from protos.wsc.v1.runs_pb2_grpc import RunsStub

_NUM_JOBS = 50
_SECONDS = 0.5


def job_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the newest jobs whose names begin with what is typed, and what they are."""
    try:
        found = _newest_jobs(ctx)
    except WscError:
        return []
    return [
        CompletionItem(job.meta.name, help=f"{job.spec.type} {_phase(job)}")
        for job in found
        if job.meta.name.startswith(incomplete)
    ]


def run_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names and ids of the newest runs that begin with what is typed."""
    try:
        found = _newest_runs(ctx)
    except WscError:
        return []
    words = {word: run for run in found for word in (run.name, run.run_id) if word}
    return [
        CompletionItem(word, help=f"{run.kind} {run.phase}")
        for word, run in words.items()
        if word.startswith(incomplete)
    ]


@contextmanager
def _connected(ctx: click.Context) -> Iterator[ClusterClient]:
    path = config_path(ctx.params.get("csconfig"), os.environ)
    access = cluster_access(load_document(path), namespace=ctx.params.get("namespace"), source=path)
    metadata = current_user(os.environ).metadata(build_version=csctl_version())
    with connect(access, metadata=metadata, seconds=_SECONDS) as client:
        yield client


def _newest_runs(ctx: click.Context) -> list[Run]:
    with _connected(ctx) as client:
        request = ListRunsRequest(session=client.namespace, with_finished=True, limit=_NUM_JOBS)
        return list(client.call(RunsStub(client.channel).ListRuns, request).runs)


def _newest_jobs(ctx: click.Context) -> list[Job]:
    with _connected(ctx) as client:
        options = GetOptions(all_states=True, limit=_NUM_JOBS)
        return list(client.get("jobs", JobList, options=options).items)


def _phase(job: Job) -> str:
    return JobStatus.Phase.Name(job.status.phase)


def output_forms(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Propose forms of answers; what follows a template's name is one's own."""
    forms = ("table", "wide", "json", "yaml", "name", "custom-columns=", "jsonpath=")
    return [CompletionItem(form) for form in forms if form.startswith(incomplete)]
