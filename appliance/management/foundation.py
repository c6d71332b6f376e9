"""What must exist before anything listens: storage, secrets and identities."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from appliance.core.clock import Clock
from appliance.files.private import make_own, make_private, remove_if_empty
from appliance.management.access.authorization import Access, open_access
from appliance.management.access.certificates import (
    Certificates,
    ensure_certificates,
    find_certificates,
)
from appliance.management.access.driver_tokens import DriverTokens, open_driver_tokens
from appliance.management.access.stream_secrets import ensure_identity
from appliance.management.background.notification_channels import NotifyOptions, read_notify_options
from appliance.management.changes.watch import JobWatch
from appliance.management.options.combined_settings import ManagementOptions
from appliance.management.pods.coordinators import CoordinatorAddresses
from appliance.management.pods.held_ports import HeldPorts
from appliance.management.pods.inner_listener import JobKeys
from appliance.management.reconciler.mailbox import Mailbox
from appliance.management.store.databases import open_own_database
from appliance.management.store.keys import STREAMS, ensure_key
from appliance.management.store.lease_clock import LeaseClock
from appliance.management.store.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """What everything else is built on.

    Attributes:
        options: How the appliance is set up.
        clock: Time for everything.
        state: The appliance's database.
        access: Who callers are, and what they may do.
        tls: What the appliance proves itself with; None without TLS.
        stream_secret: What the keys of the jobs' streams are made from.
        job_keys: Those keys.
        driver_tokens: Makes the tokens by which the scripts of drivers are known.
        notify: How people are told of their jobs.
        watch: Where waiters hear of changes.
        mailbox: Where the reconciler is told what has happened.
        addresses: Where coordinators on other nodes are.
        ports: Keeps the ports of those on this one from others.
    """

    options: ManagementOptions
    clock: Clock
    state: State
    access: Access
    tls: Certificates | None
    stream_secret: bytes
    job_keys: JobKeys
    driver_tokens: DriverTokens
    notify: NotifyOptions
    watch: JobWatch
    mailbox: Mailbox
    addresses: CoordinatorAddresses
    ports: HeldPorts

    @property
    def inner_address(self) -> str:
        """Target of gRPC: the inner service on this node."""
        return f"unix:{self.options.runtime_root}/management.sock"


def lay_foundation(options: ManagementOptions, clock: Clock, closers: ExitStack) -> Foundation:
    """Open the contents of the data directory, and create what is missing.

    Args:
        options: How the appliance is set up.
        clock: Time for everything.
        closers: Takes what is to be closed in the end.
    """
    data_dir = options.data_dir
    make_private(data_dir)
    make_own(options.runtime_root)
    closers.callback(remove_if_empty, options.runtime_root)
    database = open_own_database(data_dir, options.keeping.database)
    closers.callback(database.close)
    database.claim()
    secret = ensure_key(data_dir, STREAMS)
    notify = options.telling.notify
    ports = HeldPorts(clock, is_needed=not options.trust.has_tls)
    closers.callback(ports.close)
    return Foundation(
        options=options,
        clock=clock,
        state=State.over(database, clock, lease_clock=LeaseClock(clock)),
        access=open_access(
            data_dir,
            database,
            clock,
            needs_token=options.trust.needs_token,
            serves_all=options.trust.serves_local_users,
            is_vouched_for=bool(options.nodes.kubernetes),
        ),
        tls=_ensure_tls(options, clock),
        stream_secret=secret,
        job_keys=JobKeys(secret, _ensure_stream_identity(options, clock)),
        driver_tokens=open_driver_tokens(data_dir),
        notify=read_notify_options(Path(notify)) if notify else NotifyOptions(),
        watch=JobWatch(),
        mailbox=Mailbox(),
        addresses=CoordinatorAddresses(data_dir / "jobs"),
        ports=ports,
    )


def _ensure_tls(options: ManagementOptions, clock: Clock) -> Certificates | None:
    if not options.trust.has_tls:
        return None
    name = options.listen.public_host
    if options.trust.certificates:
        return find_certificates(Path(options.trust.certificates), name, clock)
    return ensure_certificates(options.data_dir / "tls", name, clock)


def _ensure_stream_identity(options: ManagementOptions, clock: Clock) -> str:
    if options.runs.streams != "network-tls":
        return ""
    return str(ensure_identity(options.data_dir / "tls" / "streams.pem", clock))
