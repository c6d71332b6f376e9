"""Whether a client that ends its failed job knows why it failed.

A client whose coordinator is gone learns nothing from it: its own exception says that a tensor did
not arrive (`Ran into error while receiving tensor ...`), and Python prints that exception last,
long after the log line with the job's reason. When it then ends the job, it passes its exception's
text; if that is not the reason, the call ends with the reason as its error, and the user reads that
last.
"""

import re

from appliance.core.errors import ConflictError
from appliance.core.ids import JobId
from appliance.management.jobs.job_service import NO_REASONS

_POD = re.compile(r"wsjob-[a-z0-9]+-[a-z]+-\d+")
_MOST = 200
"""Letters and digits that have to agree."""


def require_told(job: JobId, told: str, reason: str) -> None:
    """Check that a client that ends its failed or failing job knows the reason.

    Args:
        told: What the client says.
        reason: Why the job failed, or nothing.

    Raises:
        ConflictError: It gives another reason; the message ends with the job's own.
    """
    if told not in NO_REASONS and not tells(told, reason):
        raise ConflictError(f"Job {job} had failed already. {reason}")


def tells(told: str, reason: str) -> bool:
    """Return whether a client's text holds the reason why its job failed.

    Args:
        told: What the client says.
        reason: Why the job failed, or nothing.
    """
    if any(pod in told for pod in _POD.findall(reason)[:1]):
        return True
    first_line = reason.strip().partition("\n")[0]
    return _letters(first_line)[:_MOST] in _letters(told)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lower()
