"""Management without its REST server, from start to end."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field

from appliance.core.addresses import host_and_port
from appliance.core.clock import Clock
from appliance.core.cluster.jobs import Phase
from appliance.core.queries.job_filter import JobFilter
from appliance.management.changes.watch import Topic
from appliance.management.foundation import Foundation, lay_foundation
from appliance.management.front.client_config import write_client_config
from appliance.management.grpc_servers import (
    lead_on,
    open_one_port,
    serve_clients,
    serve_pods,
    to_management,
)
from appliance.management.kubernetes.kubernetes_side import Candidacy
from appliance.management.kubernetes.wsjobs import JobServices
from appliance.management.options.combined_settings import ManagementOptions
from appliance.management.options.settings_by_group import LOOPBACK
from appliance.management.pod_side import OpenPodSide, PodSide, open_pod_side
from appliance.management.pods.held_ports import HeldPorts
from appliance.management.pods.inner_listener import open_inner_listener
from appliance.management.reconciler.reconciler import Reconciler
from appliance.management.rpc.client.lease_beats import Presence
from appliance.management.services import Services
from appliance.management.store.own_process import spare_the_collector
from appliance.management.store.persistent_ports import Ports
from appliance.management.wiring import PublicAddresses, Wired, wire
from appliance.wire.connections.forwarder import Forwarder

logger = logging.getLogger(__name__)

_NUM_THREADS = 16
_TOPICS = {topic.value: topic for topic in Topic}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestPlace:
    """Where the REST shell is.

    Attributes:
        is_served: Whether it serves, so that with TLS clients' one port leads there too.
    """

    url: str
    is_served: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Management:
    """Management that is up.

    Attributes:
        services: What it offers.
        address: host:port at which clients reach the appliance.
        ports: Where it listens, REST's aside.
        join_address: host:port at which agents join; empty where none do.
    """

    services: Services
    address: str
    ports: Ports
    join_address: str

    @property
    def rest_hosts(self) -> frozenset[str]:
        """Names by which REST may be called; none allows every name.

        Without tokens the appliance listens on loopback and believes whoever calls, so that a page
        of another site must not reach it by a name of its own.
        """
        options = self.services.options
        if options.trust.needs_token:
            return frozenset()
        return frozenset({*LOOPBACK, options.listen.public_host})


@asynccontextmanager
async def running_management(
    options: ManagementOptions,
    clock: Clock,
    rest: RestPlace,
    *,
    candidacy: Candidacy | None = None,
    open_pods: OpenPodSide = open_pod_side,
) -> AsyncIterator[Management]:
    """Be management: listen and run jobs, and in the end refuse new calls and end all of it.

    A start that fails ends nothing that an earlier management has left.

    Args:
        options: How the appliance is set up.
        clock: Time for everything.
        rest: Where REST is.
        candidacy: On a Kubernetes cluster, by which this management leads.
        open_pods: Opens where pods run.

    Raises:
        ClusterError: A port is taken.
    """
    async with AsyncExitStack() as stack:
        start = _Start(stack=stack, rest=rest, candidacy=candidacy, open_pods=open_pods)
        management = await start.run(options, clock)
        logger.info("Appliance is up", extra={"address": management.address})
        yield management
    logger.info("Appliance is down", extra={"address": management.address})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """The steps of a start, each of which leaves its end on a stack.

    Attributes:
        stack: Ends what serves.
        rest: Where REST is.
        candidacy: By which this management leads, if it has to.
        open_pods: Opens where pods run.
        closers: Ends the rest, which takes its time, in a thread.
        done: Set once all is up: from then on jobs are its own to end.
    """

    stack: AsyncExitStack
    rest: RestPlace
    candidacy: Candidacy | None
    open_pods: OpenPodSide
    closers: ExitStack = field(default_factory=ExitStack)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, options: ManagementOptions, clock: Clock) -> Management:
        """Start management; return it once it is up."""
        self.stack.push_async_callback(asyncio.to_thread, self.closers.close)
        foundation = lay_foundation(options, clock, self.closers)
        foundation.watch.bind(asyncio.get_running_loop())
        listeners = open_one_port(options.listen)
        for each in listeners:
            self.closers.callback(each.close)
        port = listeners[0].getsockname()[1]
        inner = self._open_inner_listener(foundation)
        pods = self.open_pods(foundation, self.candidacy, self.closers)
        one_port = _public(options, port) if foundation.tls else ""
        addresses = PublicAddresses(
            dashboard_root=self.rest.url, one_port=one_port, remote_inner_address=inner
        )
        wired = self._wire(foundation, pods, addresses)
        services = wired.services
        join_address = await self._let_nodes_join(foundation, pods)
        self._begin(wired, pods, foundation.ports)
        await self._serve(foundation, services, pods, listeners)
        management = Management(
            services=services,
            address=_public(options, port),
            ports=Ports.at(port, inner=inner, node=join_address),
            join_address=join_address,
        )
        authority = foundation.tls.authority.read_bytes() if foundation.tls else None
        write_client_config(
            options.config_path, address=management.address, authority_pem=authority
        )
        spare_the_collector()
        self.done.set()
        return management

    def _open_inner_listener(self, foundation: Foundation) -> str:
        """Let other nodes in; return host:port, or nothing if there are none."""
        options = foundation.options.nodes
        if not options.inner_host:
            return ""
        listener = open_inner_listener(
            options.inner_host,
            options.inner_port,
            foundation.inner_address,
            foundation.job_keys,
            foundation.clock,
        )
        self.stack.callback(listener.close)
        return listener.address

    def _wire(self, foundation: Foundation, pods: PodSide, addresses: PublicAddresses) -> Wired:
        self.closers.callback(self._end_pods, pods)
        if pods.kubernetes is not None:
            self.closers.callback(pods.kubernetes.close)
        wired = wire(foundation, pods, addresses)
        services = wired.services
        self.closers.callback(wired.background.close)
        self.closers.callback(services.logs.close)
        self.closers.callback(services.exports.close)
        self.closers.callback(wired.storage_watch.close)
        self.closers.callback(wired.coordinator_watch.close)
        is_ours = pods.kubernetes is None
        self.closers.callback(self._end_jobs, wired.reconciler, is_ours=is_ours)
        services.access.on_change(_teller(foundation))
        services.access.accept(services.drivers.owner_of)
        return wired

    async def _let_nodes_join(self, foundation: Foundation, pods: PodSide) -> str:
        """Open the nodes' port, and wait for those that had pods under an earlier management."""
        if pods.nodes is None:
            return ""
        if foundation.tls is None:
            logger.warning("Clients reach coordinators on other nodes with --tls alone")
        options = foundation.options.nodes
        address = pods.nodes.open(options.inner_host, options.node_port)
        await asyncio.to_thread(pods.nodes.resume, foundation.state)
        return address

    def _begin(self, wired: Wired, pods: PodSide, ports: HeldPorts) -> None:
        """Begin to move jobs; from the first cycle on none is started where there is no space."""
        services = wired.services
        wired.storage_watch.start()
        running = JobFilter(phases=tuple(phase for phase in Phase if phase.holds_resources))
        ports.recall(services.state.jobs.list(running))
        wired.reconciler.start()
        wired.coordinator_watch.start()
        wired.background.start()
        if pods.kubernetes is not None:
            of_jobs = JobServices(
                state=services.state,
                jobs=services.jobs,
                edits=services.edits,
                drivers=services.drivers,
                access=services.access,
                sessions=services.sessions,
            )
            pods.kubernetes.start(
                of_jobs, services.inventory, services.systems, listen=services.watch.listen
            )

    async def _serve(
        self,
        foundation: Foundation,
        services: Services,
        pods: PodSide,
        listeners: Sequence[socket.socket],
    ) -> None:
        """Serve clients, at listeners, and pods."""
        presence = Presence(services.clock, services.options.queue.lease_seconds)
        threads = ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="rpc")
        self.closers.callback(threads.shutdown, wait=False)
        forwarder = Forwarder(to_management(services.options), services.accepted)
        self.stack.push_async_callback(forwarder.close)  # after the calls that they carry
        for clients in await serve_clients(services, presence, threads):
            self.stack.push_async_callback(clients.stop, grace=0.5)
        inner = await serve_pods(foundation, services, presence, threads, pods)
        self.stack.push_async_callback(inner.stop, grace=0.5)
        if foundation.tls is None:
            # In this event loop: another thread would wait for Python's lock at every call.
            await forwarder.serve(listeners)
            self.stack.callback(forwarder.refuse)
        else:
            front = lead_on(listeners, services, has_rest=self.rest.is_served)
            self.stack.push_async_callback(asyncio.to_thread, front.close)

    def _end_jobs(self, reconciler: Reconciler, *, is_ours: bool) -> None:
        if is_ours and self.done.is_set():
            reconciler.close()
        else:
            reconciler.pause()

    def _end_pods(self, pods: PodSide) -> None:
        is_left = not self.done.is_set() and bool(pods.launcher.survivors())
        (pods.launcher.abandon if is_left else pods.launcher.close)()


def _public(options: ManagementOptions, port: int) -> str:
    return host_and_port(options.listen.public_host, options.listen.public_port or port)


def _teller(foundation: Foundation) -> Callable[[str, str], None]:
    """Return what tells waiters of changes to users, sessions and systems."""

    def tell(kind: str, name: str) -> None:
        if (topic := _TOPICS.get(kind)) is not None:
            foundation.watch.tell(topic, name)

    return tell
