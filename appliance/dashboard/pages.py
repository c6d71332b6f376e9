"""Serves the built pages beside the REST API.

The pages are one program (`web/`, built into `static/` by `make dashboard` and committed): the path
of each page is answered with it, and its router takes over from there. Any other path is not found:
a browser is shown the program, which says so, everybody else a problem document.
What browsers are told about security is the API's affair: every answer passes through it.
"""

from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from appliance.core.access_rules.open_paths import PAGES

STATIC = Path(__file__).parent / "static"
_HEADERS = {
    "Cache-Control": "no-cache",  # asked again with its ETag each time, so an upgrade shows at once
}


def install_pages(app: FastAPI) -> None:
    """Let `app` serve the pages at `/`; call it after every other route is there."""
    app.mount("/assets", _Assets(directory=STATIC), name="assets")

    for path in PAGES:
        app.get(path, include_in_schema=False)(_page)

    @app.get("/{path:path}", include_in_schema=False)
    def nothing(path: str, request: Request) -> FileResponse:
        """Say that there is nothing."""
        if path.startswith("api/") or "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(404, f"There is nothing at /{path}.")
        return FileResponse(STATIC / "index.html", status_code=404, headers=_HEADERS)


def _page() -> FileResponse:
    """Answer with the one page that holds them all."""
    return FileResponse(STATIC / "index.html", headers=_HEADERS)


class _Assets(StaticFiles):
    """Files with the headers that the page itself has."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response
