"""Names of jobs as a user types them: `wsjob-...`, or `<session>/wsjob-...` from older tables."""

from typing import NamedTuple

from appliance.core.errors import UserError


class JobName(NamedTuple):
    """A job's name and the session it was given with, if any."""

    session: str | None
    name: str


def parse_job_name(text: str) -> JobName:
    """Return the parts of a job's name.

    Raises:
        UserError: A part is empty, or there are more than two.
    """
    parts = text.split("/")
    if len(parts) > 2 or not all(parts):
        raise UserError(
            f"'{text}' is not a job's name.", hint="Write wsjob-... or <session>/wsjob-... ."
        )
    return JobName(session=parts[0] if len(parts) == 2 else None, name=parts[-1])
