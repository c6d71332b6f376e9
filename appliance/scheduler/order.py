"""In which order jobs are served: priority, quota, fair share, then first come, first served.

The key of a job puts these into one number (`queue` has its layout). A job that has waited longer
than its bucket's limit is *aged*: it stands with the first value after P0, before everybody's
share, by submission alone. So the wait of a large gang, or of a user beyond their share, has a
bound.
"""

import numpy as np
from numpy.typing import NDArray

from appliance.scheduler.fair_share import Account, UseClasses, classify
from appliance.scheduler.policy import ADMIN_BUCKET_END, BUCKET_WIDTH
from appliance.scheduler.queue import SEQUENCE_BITS, VALUE_SHIFT, Columns, JobQueue
from appliance.scheduler.quota import Rooms
from appliance.scheduler.snapshot import ClusterSnapshot

_SESSION_SHIFT = SEQUENCE_BITS + 4
_BORROWING_SHIFT = SEQUENCE_BITS + 8


def order_keys(snapshot: ClusterSnapshot, queue: JobQueue, rooms: Rooms) -> NDArray[np.int64]:
    """Return one key for each slot of the queue; the smallest is served first."""
    size = len(queue)
    columns = queue.columns
    by_account = rooms.borrowing(queue.accounts) << _BORROWING_SHIFT
    if snapshot.policy.uses_fair_share and queue.accounts:
        classes = use_classes(snapshot, queue.accounts)
        by_account |= (classes.session << _SESSION_SHIFT) | (classes.user << SEQUENCE_BITS)
    key = (columns.value[:size] << VALUE_SHIFT) | columns.sequence[:size]
    if by_account.any():
        key |= by_account[columns.account[:size]]
    aged = aged_slots(snapshot, columns, size)
    if len(aged):
        value = np.minimum(columns.value[aged], ADMIN_BUCKET_END)
        key[aged] = (value << VALUE_SHIFT) | columns.sequence[aged]
    return key


def aged_slots(snapshot: ClusterSnapshot, columns: Columns, size: int) -> NDArray[np.int64]:
    """Return the slots of jobs that have waited longer than their bucket's limit."""
    limits = snapshot.policy.max_wait_seconds
    known = [limit for limit in limits if limit is not None]
    if not known:
        return np.zeros(0, np.int64)
    waited = snapshot.now_seconds - columns.submitted[:size]
    old = np.flatnonzero(waited > min(known))
    if not len(old):
        return old
    by_bucket = np.array([np.inf if limit is None else limit for limit in limits])
    return old[waited[old] > by_bucket[columns.value[old] // BUCKET_WIDTH]]


def use_classes(snapshot: ClusterSnapshot, accounts: list[Account]) -> UseClasses:
    """Return the classes of use of accounts, what runs now included."""
    now = snapshot.now_seconds
    numbers = {} if snapshot.usage is None else snapshot.usage.numbers()
    used = np.zeros(0) if snapshot.usage is None else snapshot.usage.all_used(at_seconds=now)
    mine = [numbers.setdefault(account, len(numbers)) for account in accounts]
    running = [numbers.setdefault(grant.account, len(numbers)) for grant in snapshot.grants]
    used = np.concatenate([used, np.zeros(len(numbers) - len(used))])
    for number, grant in zip(running, snapshot.grants, strict=True):
        if grant.started_seconds is not None:
            used[number] += grant.num_systems * (now - grant.started_seconds)
    shares = {quota.name: quota.shares for quota in snapshot.sessions}
    classes = classify(numbers, used, shares)
    return UseClasses(classes.session[mine], classes.user[mine])
