"""The process of an appliance: management and its REST shell, from the start to a signal."""

import asyncio
import dataclasses
import faulthandler
import functools
import json
import logging
import os
import signal
import socket
import sys
from contextlib import ExitStack
from typing import Annotated

import typer

from appliance.cli.options.data_dir import print_state
from appliance.cli.programs_to_run import Program, program_of
from appliance.cli.rest_shell import let_in, listen_for_front, serve_rest
from appliance.core.addresses import host_and_port
from appliance.core.clock import SystemClock
from appliance.core.dataclass_json import from_json
from appliance.core.errors import WscError
from appliance.files.private import keep_private
from appliance.management.front.sni_proxy import listen
from appliance.management.kubernetes.kubernetes_side import Candidacy
from appliance.management.options.combined_settings import ManagementOptions
from appliance.management.options.settings_by_group import KUBERNETES, PROCESSES
from appliance.management.pod_side import open_pod_side
from appliance.management.server import Management, RestPlace, running_management
from appliance.management.store.databases import await_database
from appliance.management.store.instance import Instance, InstanceState, started_at
from appliance.management.store.own_process import run_event_loop
from appliance.management.store.persistent_ports import Ports, await_free
from appliance.management.store.storage_errors import storage_errors
from appliance.observability.logging import configure_logging
from appliance.settings import read_settings

logger = logging.getLogger(__name__)

_DATABASE_SECONDS = 60.0
"""How long a management in the foreground waits for its database, which may start beside it."""


def serve(
    context: typer.Context,
    options: int,
    ready_descriptor: Annotated[int | None, typer.Argument()] = None,
) -> None:
    """Be the appliance that `up` starts in the background, and tells `up` of itself.

    Its options, some of them secrets, come as JSON by a descriptor, which stays open: a process
    that begins anew reads them again.
    """
    configure_logging(as_json=True, level=read_settings().log_level, stream=sys.stderr)
    text = os.pread(options, os.fstat(options).st_size, 0).decode()
    told = from_json(ManagementOptions, text)
    run_event_loop(serve_appliance(told, program_of(context), ready_descriptor))


async def serve_appliance(
    options: ManagementOptions, program: Program, ready_descriptor: int | None
) -> None:
    """Be an appliance until a signal ends it.

    Args:
        options: How it is set up.
        program: What its pods run.
        ready_descriptor: Where to write what `up` waits for; None tells people.
    """
    faulthandler.enable()  # else a fault, as when a file that is mapped is cut, ends us in silence
    keep_private(shares_with_group=options.nodes.launcher != PROCESSES)
    try:
        with storage_errors(options.data_dir, options.keeping.database):
            await _run(options, program, ready_descriptor)
    except WscError as error:
        if ready_descriptor is None:
            raise
        logger.critical("The appliance does not start", extra={"why": str(error)})
        text = json.dumps({"error": error.message, "hint": error.hint})
        os.write(ready_descriptor, text.encode())


async def _run(options: ManagementOptions, program: Program, ready_descriptor: int | None) -> None:
    is_ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, is_ended.set)
    if options.nodes.launcher != KUBERNETES:
        await _run_alone(options, program, ready_descriptor, is_ended)
        return
    candidacy = await asyncio.to_thread(Candidacy, options.nodes.kubernetes, SystemClock())
    try:
        if await _leads(candidacy, is_ended):
            await _run_alone(options, program, ready_descriptor, is_ended, candidacy)
    finally:
        await asyncio.to_thread(candidacy.withdraw)


async def _leads(candidacy: Candidacy, is_ended: asyncio.Event) -> bool:
    """Wait until this management is the leader; False if it is stopped before."""
    leading = asyncio.create_task(asyncio.to_thread(candidacy.lead))
    ending = asyncio.create_task(is_ended.wait())
    await asyncio.wait((leading, ending), return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    if not leading.done():
        await asyncio.to_thread(candidacy.withdraw)
    return await leading and not is_ended.is_set()


async def _run_alone(
    options: ManagementOptions,
    program: Program,
    ready_descriptor: int | None,
    is_ended: asyncio.Event,
    candidacy: Candidacy | None = None,
) -> None:
    """Run as the only management of a data directory, until it is stopped."""
    instance = Instance(options.data_dir)
    if candidacy is None:  # else the lease says who is the one
        instance.acquire()
        options = await asyncio.to_thread(_with_ports, options, instance.kept_ports())
    database = options.keeping.database
    waits = ready_descriptor is None and database  # else somebody waits for a word
    if waits and not await await_database(database, is_ended, seconds=_DATABASE_SECONDS):
        return
    listeners = listen(options.listen.bind_host, options.listen.rest_port, option="--rest-port")
    rest = RestPlace(url=_rest_url(options, listeners[0]), is_served=True)
    open_pods = functools.partial(open_pod_side, programs=program.pods)
    with ExitStack() as afterwards:
        async with running_management(
            options, SystemClock(), rest, candidacy=candidacy, open_pods=open_pods
        ) as management:
            # Not before, or an earlier one's ports would not be taken by the next.
            afterwards.callback(instance.clear_state)
            let_in(listeners)
            front = listen_for_front(management)
            state = _state_of(management, rest, listeners[0])
            instance.write_state(state)
            _announce(state, ready_descriptor)
            await serve_rest(management, listeners, front, is_ended)


def _rest_url(options: ManagementOptions, listener: socket.socket) -> str:
    scheme = "https" if options.trust.has_tls else "http"
    return f"{scheme}://{host_and_port(options.listen.public_host, listener.getsockname()[1])}"


def _with_ports(options: ManagementOptions, kept: Ports) -> ManagementOptions:
    """Return the options with the ports that a predecessor leaves; raises if they are taken."""
    listen_at, nodes = options.listen, options.nodes
    asked = Ports(
        port=listen_at.port,
        rest_port=listen_at.rest_port,
        inner_port=nodes.inner_port,
        node_port=nodes.node_port,
    )
    data_dir = str(options.data_dir)
    await_free(listen_at.bind_host, asked, kept, data_dir=data_dir, clock=SystemClock())
    found, change = asked.with_kept(kept), dataclasses.replace
    return change(
        options,
        listen=change(listen_at, port=found.port, rest_port=found.rest_port),
        nodes=change(nodes, inner_port=found.inner_port, node_port=found.node_port),
    )


def _state_of(management: Management, rest: RestPlace, listener: socket.socket) -> InstanceState:
    services = management.services
    return InstanceState(
        pid=os.getpid(),
        started=started_at(os.getpid()),
        address=management.address,
        rest_url=rest.url,
        config_path=str(services.options.config_path),
        runtime_root=str(services.options.runtime_root),
        num_systems=len(services.inventory.systems()),
        join_address=management.join_address,
        ports=dataclasses.replace(management.ports, rest_port=listener.getsockname()[1]),
    )


def _announce(state: InstanceState, ready_descriptor: int | None) -> None:
    if ready_descriptor is None:
        print_state(state)
        return
    os.write(ready_descriptor, json.dumps(dataclasses.asdict(state)).encode())
    os.close(ready_descriptor)
