"""Recognises repeated submissions and finds the jobs that their first attempts created.

The client's gRPC repeats a call up to four times, within half a minute, when its connection ends or
the answer is UNAVAILABLE, UNKNOWN or RESOURCE_EXHAUSTED; the header `grpc-previous-rpc-attempts`
marks the repeat. The earlier attempt may have been committed, by this management or by one that was
killed before it could answer. So each job stores a digest of its request, and a repeat gets the
existing job unless its client has shown since that it knows that job: a client that wants the same
thing twice has looked at the first one.
"""

import datetime as dt
import hashlib
from collections import OrderedDict
from threading import Lock

from appliance.core.cluster.records import JobRecord
from appliance.core.ids import JobId
from appliance.management.store.state import State
from appliance.wire.caller import Caller
from appliance.wire.requests.submissions import Submission

REPEAT_SECONDS = 120.0
"""How old a job may be that a repeat is answered with. The client waits 2, 4, 8 and 10 seconds,
each a fifth more or less, before its repeats; the attempts themselves may take a while too."""

_MAX_KNOWN = 10_000
"""Jobs remembered that their clients have asked about; more than are submitted in that time."""


def digest_of(submission: Submission, caller: Caller) -> str:
    """Return a digest that is equal for all attempts of one call, and differs for other calls."""
    user = caller.user
    who = (user.uid, user.gid, user.name, caller.token, caller.workflow, caller.session)
    digest = hashlib.sha256(repr((submission.type.value, *who)).encode())
    digest.update(submission.request)
    return digest.hexdigest()


class RepeatedCalls:
    """Finds the jobs of submissions that come again.

    Args:
        state: Where jobs are kept.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._lock = Lock()
        self._known: OrderedDict[JobId, None] = OrderedDict()

    def client_knows(self, job: JobId) -> None:
        """Take note that a client has asked about a job that there is: it has heard of it."""
        with self._lock:
            self._known[job] = None
            if len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)

    def find_first(self, digest: str, caller: Caller) -> JobRecord | None:
        """Return the job that an earlier attempt of a call made; None if there is none.

        Called within the batch that would store another one, so that it sees attempts that are yet
        to be committed.
        """
        if not caller.num_previous_attempts:
            return None
        since = self._state.clock.now() - dt.timedelta(seconds=REPEAT_SECONDS)
        with self._lock:
            known = frozenset(self._known)
        unclaimed = self._state.jobs.unclaimed(digest, since=since)
        return next((job for job in unclaimed if job.id not in known), None)
