"""Notifies people of their jobs, in a thread of its own that only reads events.

Nothing waits for it. A notification is tried until it is accepted, refused for good or given up;
the outcome becomes an event of the job.
"""

import datetime as dt
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from appliance.core.cluster.notifications import Notice
from appliance.core.cluster.records import EventRecord
from appliance.core.errors import StaleWriterError
from appliance.core.ids import JobId
from appliance.management.background.notification_channels import DeliveryError, NotifyOptions, Send
from appliance.management.store.state import State
from appliance.observability.metrics import NOTIFICATIONS
from appliance.storage.users.notifications import Delivery

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_NUM_SENDERS = 4
"""So many targets may hang at the same time before others have to wait."""
_MAX_AT_ONCE = 64
_MAX_PAUSE_SECONDS = 900.0


class Notifier:
    """Sends due notifications.

    Args:
        state: The appliance's database.
        options: How often a notice is tried.
        send: Tells one target.
        page_of: Address of a job's page.
    """

    def __init__(
        self, state: State, options: NotifyOptions, send: Send, page_of: Callable[[JobId], str]
    ) -> None:
        self._state = state
        self._options = options
        self._send = send
        self._page_of = page_of
        self._is_closing = threading.Event()
        self._senders = ThreadPoolExecutor(_NUM_SENDERS, thread_name_prefix="notify")
        self._in_hand: set[int] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)

    def start(self) -> None:
        """Go on with what an earlier management left unsent, then look for more."""
        self._thread.start()

    def close(self) -> None:
        """Stop; unsent notifications stay in the database."""
        self._is_closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._senders.shutdown(wait=True, cancel_futures=True)

    def look(self) -> None:
        """Read new events, and start sending due notifications."""
        if not self._state.notifications.is_used():
            return
        now = self._state.clock.now()
        while self._state.notifications.gather(now):
            pass
        with self._lock:  # before they are read: what is sent meanwhile must not be sent again
            busy = frozenset(self._in_hand)
        for delivery in self._state.notifications.due(now, _MAX_AT_ONCE):
            if delivery.id in busy:
                continue
            with self._lock:
                self._in_hand.add(delivery.id)
            self._senders.submit(self._deliver_guarded, delivery)

    def deliver(self, delivery: Delivery) -> None:
        """Try one delivery, and store its outcome."""
        notice = self._notice(delivery)
        if notice is None:
            return  # the job is forgotten, and so is the delivery
        target = delivery.target
        try:
            self._send(target, notice)
        except DeliveryError as error:
            self._failed(delivery, error)
            return
        NOTIFICATIONS.labels(target.channel.value, "sent").inc()
        self._end(delivery, "Notified", f"{target.shown} was told: {delivery.news.value}")

    def _failed(self, delivery: Delivery, error: DeliveryError) -> None:
        shown, attempt = delivery.target.shown, delivery.num_attempts + 1
        NOTIFICATIONS.labels(delivery.target.channel.value, "failed").inc()
        if error.is_final or attempt >= self._options.max_attempts:
            text = f"{shown} was not told of {delivery.news.value} in {attempt} attempt(s): {error}"
            logger.info(
                "Notification is given up",
                extra={"job": delivery.job, "target": shown, "why": error.detail},
            )
            self._end(delivery, "NotificationFailed", text)
            return
        pause = min(self._options.retry_seconds * 2 ** (attempt - 1), _MAX_PAUSE_SECONDS)
        self._postpone(delivery, pause)
        logger.info(
            "Notification is tried again",
            extra={"job": delivery.job, "target": shown, "why": error.detail, "seconds": pause},
        )

    def _notice(self, delivery: Delivery) -> Notice | None:
        job = self._state.jobs.find(delivery.job)
        if job is None:
            return None
        return Notice(
            job=job.id,
            type=job.type.value,
            user=job.user.name,
            session=job.session,
            news=delivery.news,
            message=delivery.message,
            at=delivery.at.isoformat(),
            url=self._page_of(job.id),
            labels=job.labels,
        )

    def _postpone(self, delivery: Delivery, seconds: float) -> None:
        until = self._state.clock.now() + dt.timedelta(seconds=seconds)
        self._state.notifications.postpone(delivery.id, until)

    def _end(self, delivery: Delivery, reason: str, message: str) -> None:
        """Delete a delivery and store its outcome, in one transaction."""
        logger.info("Notification", extra={"job": delivery.job, "what": message})
        event = EventRecord(
            job=delivery.job,
            at=self._state.clock.now(),
            reason=reason,
            message=message,
            subject=delivery.job,
            is_warning=reason != "Notified",
        )
        with self._state.database.batch():
            self._state.notifications.done(delivery.id)
            self._state.jobs.add_event(event)

    def _deliver_guarded(self, delivery: Delivery) -> None:
        try:
            self.deliver(delivery)
        except StaleWriterError:
            self._is_closing.set()
        except Exception:  # outermost frame of a thread: one notice must not stop the others
            logger.exception("Notification failed", extra={"job": delivery.job})
            self._postpone(delivery, _MAX_PAUSE_SECONDS)
        finally:
            with self._lock:
                self._in_hand.discard(delivery.id)

    def _run(self) -> None:
        while not self._is_closing.wait(_LOOK_SECONDS):
            try:
                self.look()
            except StaleWriterError:
                self._is_closing.set()
            except Exception:  # outermost loop of the thread
                logger.exception("Notifier failed in one turn; it goes on with the next")
