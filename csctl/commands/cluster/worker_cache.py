"""`csctl get worker-cache` and `clear-worker-cache`."""

from functools import partial

from csctl.command_line.flags import OutputOption
from csctl.command_line.invocation import Invocation
from csctl.output.documents.output_formats import OutputFormat
from csctl.output.table import Column, render
from protos.csctl.api_pb2 import ClearWorkerCacheRequest
from protos.csctl.api_pb2_grpc import CsCtlV1Stub
from protos.csctl.resources_pb2 import WorkerCache, WorkerCacheList

_COLUMNS: tuple[Column[WorkerCache], ...] = (
    Column(header="NODE", cell=lambda cache: cache.meta.name),
    Column(header="DISK USAGE", cell=lambda cache: cache.status.disk_usage_percent),
)


def list_worker_caches(invocation: Invocation, output: OutputOption = OutputFormat.TABLE) -> None:
    """List how full the disks of the worker nodes are."""
    with invocation.connect() as client:
        caches = client.get("worker-cache", WorkerCacheList).items
    invocation.show_list(caches, table=partial(render, _COLUMNS, caches), output=output)


def clear_worker_cache(invocation: Invocation) -> None:
    """Clear the caches of all worker nodes, which users share.

    Input workers of this appliance read the user's own files, so nothing is there to clear.
    """
    with invocation.connect() as client:
        stub = CsCtlV1Stub(client.channel)
        invocation.write(client.call(stub.ClearWorkerCache, ClearWorkerCacheRequest()).message)
