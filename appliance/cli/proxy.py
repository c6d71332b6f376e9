"""`appliance proxy`: pass clients on to management and coordinators, whichever management leads."""

import logging
import math
import queue
import signal
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from appliance.cli.errors import clear_errors
from appliance.cli.options.secret_options import no_database_password
from appliance.core.addresses import IPV6_FORM, bare_host, host_and_port, split_address
from appliance.core.clock import Clock, SystemClock
from appliance.core.cluster.records import CoordinatorAddress
from appliance.core.errors import UserError
from appliance.core.ids import JobId
from appliance.management.front.sni_proxy import Backends, SniProxy, listen
from appliance.observability.logging import configure_logging
from appliance.settings import read_settings
from appliance.storage.cluster.coordinator_directory import CoordinatorDirectory

logger = logging.getLogger(__name__)

_PORT = 9000
_KEY_SECONDS = 5.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def proxy(
    *,
    management: Annotated[str, typer.Option(help="host:port of management's port for clients.")],
    database: Annotated[
        str,
        typer.Option(
            help="Management's database, as given to `up`.",
            show_default="",
            callback=no_database_password,
        ),
    ] = "",
    host: Annotated[str, typer.Option(help="Name or address to listen at.")] = "localhost",
    port: Annotated[
        list[int] | None,
        typer.Option(help="Port for clients, 0 for any; may be repeated.", show_default="9000"),
    ] = None,
    drain_seconds: Annotated[
        float, typer.Option(help="How long clients of running jobs may stay when this ends.")
    ] = 0.0,
) -> None:
    """Be the port that clients connect to, so that they stay connected when management changes.

    What management's own port does with --tls, in a process of its own: connections are passed on
    as they are to the coordinator of the job that they name, and all others to management.

    Example: appliance proxy --management head:9000 --database postgresql+psycopg://wsc@db/wsc
    """
    settings = read_settings()
    configure_logging(as_json=False, level=settings.log_level, stream=sys.stderr)
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in _SIGNALS:
        signal.signal(number, lambda number, _: signals.put(number))
    with clear_errors():
        behind = _address(management)
        directory = _directory(database or settings.database)
        ports = port or [_PORT]
        listeners = [
            each for own in ports for each in listen(bare_host(host), own, option="--port")
        ]
    backends = Backends(
        management=lambda _: behind,
        rest=behind,
        find_coordinator=_finder(directory),
        find_key=ProxyKey(directory, SystemClock()),
    )
    front = SniProxy(listeners, backends)
    front.start()
    addresses = [host_and_port(*each.getsockname()[:2]) for each in listeners]
    logger.info("Clients are passed on", extra={"at": addresses, "management": management})
    signals.get()
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)  # a second one ends it at once
    front.close(drain_seconds=drain_seconds)
    directory.close()


def _address(text: str) -> tuple[str, int]:
    try:
        return split_address(text)
    except ValueError as error:
        raise UserError(f"{text!r} is no host:port of management.", hint=IPV6_FORM) from error


def _directory(url: str) -> CoordinatorDirectory:
    hint = "Give --database what `appliance up` has, or set WSC_DATABASE."
    if not url:
        raise UserError("No database is given to find coordinators in.", hint=hint)
    try:
        return CoordinatorDirectory(url)
    except (ArgumentError, NoSuchModuleError) as error:
        raise UserError("The database's URL is not understood.", hint=hint) from error


def _finder(directory: CoordinatorDirectory) -> Callable[[JobId], CoordinatorAddress | None]:
    def find(job: JobId) -> CoordinatorAddress | None:
        try:
            return directory.find(job)
        except SQLAlchemyError as error:  # the client calls again
            logger.warning("A job cannot be looked up", extra={"job": job, "reason": str(error)})
            return None

    return find


class ProxyKey:
    """The key by which management believes what is said of a connection.

    Args:
        directory: Has it.
    """

    def __init__(self, directory: CoordinatorDirectory, clock: Clock) -> None:
        self._directory, self._clock = directory, clock
        self._last, self._fresh_until = b"", -math.inf

    def __call__(self) -> bytes:
        """Return it, as it was last if the database does not answer.

        It is read anew after seconds alone: anybody who connects asks for it.

        Raises:
            LookupError: The database has never answered.
        """
        now = self._clock.monotonic_seconds()
        if now < self._fresh_until:
            return self._last
        try:
            self._last = self._directory.proxy_key()
            self._fresh_until = now + _KEY_SECONDS
        except SQLAlchemyError as error:  # the client calls again
            logger.warning("The key of proxies cannot be read", extra={"reason": str(error)})
            if not self._last:
                raise LookupError("the key of proxies") from error
        return self._last
