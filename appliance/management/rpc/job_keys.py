"""Who speaks for a job to management's inner services: whoever knows the job's key.

The tunnel by which a pod of another node comes here asks for the key of *a* job. What the pod then
says may name any job, so every method of these services asks again, for the key of that one.
"""

import hmac
from collections.abc import Callable

from appliance.core.errors import ForbiddenError
from appliance.core.ids import JobId
from appliance.core.pods.pod_spec import JOB_KEY_METADATA
from appliance.management.rpc.call_context import Context

KeyOf = Callable[[JobId], str] | None
"""Returns the key of a job, which whoever speaks for the job has to know; None where all pods run
as one user of this machine."""


def check_key(key_of: KeyOf, job: JobId, context: Context) -> None:
    """Refuse a caller who does not know a job's key.

    Raises:
        ForbiddenError: That is so.
    """
    if key_of is None:
        return
    told = dict(context.invocation_metadata() or ()).get(JOB_KEY_METADATA, "")
    if not hmac.compare_digest(str(told).encode(), key_of(job).encode()):
        raise ForbiddenError(f"Whoever speaks for job {job} does not know the job's key.")
