"""Names of jobs as a user types them: `wsjob-...`, or `<session>/wsjob-...` from older tables."""

import re
from typing import NamedTuple

from appliance.core.errors import UserError

_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


class JobName(NamedTuple):
    """A job's name and the session it was given with, if any."""

    session: str | None
    name: str

    @property
    def text(self) -> str:
        """The name as it was given."""
        return f"{self.session}/{self.name}" if self.session else self.name


def parse_job_name(text: str) -> JobName:
    """Return the parts of a job's name.

    Raises:
        UserError: A part is empty or holds what no name has, or there are more than two.
    """
    parts = text.split("/")
    if len(parts) > 2 or not all(map(_PART.fullmatch, parts)):
        raise UserError(
            f"'{text}' is not a job's name.", hint="Write wsjob-... or <session>/wsjob-... ."
        )
    return JobName(session=parts[0] if len(parts) == 2 else None, name=parts[-1])
