"""Problem documents (RFC 9457) in the description of the interface."""

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel

PROBLEM_TYPE = "application/problem+json"


class Problem(BaseModel):
    """Why a request was not granted (RFC 9457)."""

    type: str
    """Always `about:blank`: the status says the kind."""
    title: str
    status: int
    detail: str
    """One sentence that names the object and the numbers that clash."""
    hint: str | None = None
    """What can be done next."""


# `Any`: FastAPI's own type of a table of responses.
def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI description of a route's error statuses.

    Statuses that stand before every route (a bad parameter, a lacking token, no right, too
    slow, too often) need not be given.
    """
    wanted = sorted({401, 403, 408, 413, 421, 422, 429, *codes})
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        code: {
            "description": HTTPStatus(code).phrase,
            "content": {PROBLEM_TYPE: {"schema": schema}},
        }
        for code in wanted
    }
