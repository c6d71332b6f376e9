"""How far a job is."""

from collections.abc import Mapping

from appliance.core.quantities import progress_words


def progress_text(properties: Mapping[str, str]) -> str:
    """Return `step 375 of 600, 2 min to go` from a job's properties; empty if they do not say."""
    completed, planned = properties.get("steps_completed"), properties.get("steps_planned")
    if completed is None or planned is None:
        return ""
    left = properties.get("remaining_seconds")
    return progress_words(int(completed), int(planned), None if left is None else float(left))


def progress_line(properties: Mapping[str, str]) -> str:
    """Return how far a job is, with its session if it has run several; empty if nothing says."""
    words = progress_text(properties)
    if not words:
        return ""
    number, of = properties.get("run_session", "1"), properties.get("num_run_sessions", "1")
    if of == "1":
        return f"Progress: {words}"
    return f"Progress: session {number} of {of} so far: {words} (--session N shows each)"
