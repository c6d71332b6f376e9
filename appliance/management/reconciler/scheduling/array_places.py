"""Arrays of which at most so many runs go on at once: which of those that wait may start."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from appliance.core.ids import JobId
from appliance.scheduler.queue import PendingJob


def changed_places(waiting: Sequence[PendingJob], started: Mapping[str, int]) -> dict[JobId, bool]:
    """Return the jobs whose place changes, with whether they wait for one now.

    The first submitted have the places that are left; those that are held, or follow others, take
    none.

    Args:
        waiting: The waiting jobs of limited arrays.
        started: How many jobs of each array hold something.
    """
    arrays: defaultdict[str, list[PendingJob]] = defaultdict(list)
    for job in waiting:
        if not job.held_by and not job.after:
            arrays[job.array].append(job)
    changed = {}
    for array, members in arrays.items():
        left = members[0].array_limit - started.get(array, 0)
        for job in sorted(members, key=lambda job: job.sequence):
            may_start = left > 0
            left -= may_start
            if job.awaits_place is may_start:
                changed[job.id] = not may_start
    return changed
