"""ETags of objects whose versions are numbers."""

from appliance.core.errors import UserError
from appliance.core.integers import MAX_POSITION, find_integer


def version_tag(version: int) -> str:
    """Return the ETag of a version."""
    return f'"{version}"'


def version_of(if_match: str) -> int | None:
    """Return the version that an If-Match header names; None for any.

    Raises:
        UserError: It is none of our ETags.
    """
    tag = if_match.strip()
    if tag in ("", "*"):
        return None
    version = find_integer(tag.strip('"'), MAX_POSITION)
    if version is None:
        raise UserError(f"If-Match {if_match[:80]!r} is no ETag.", hint="Give the ETag as it came.")
    return version
