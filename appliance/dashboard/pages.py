"""Serves the built pages beside the REST API.

The pages are one program (`web/`, built into `static/` by `make dashboard` and committed): every
path that is not the API's and not a file is answered with it, and its router takes over from there.
What browsers are told about security is the API's affair: every answer passes through it.
"""

from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(__file__).parent / "static"

_HEADERS = {
    "Cache-Control": "no-cache",  # asked again with its ETag each time, so an upgrade shows at once
}


def install_pages(app: FastAPI) -> None:
    """Let `app` serve the pages at `/`; call it after every other route is there."""
    app.mount("/assets", _Assets(directory=STATIC), name="assets")

    @app.get("/{path:path}", include_in_schema=False)
    def page(path: str) -> FileResponse:
        """Answer with the one page that holds them all."""
        if path.startswith("api/"):
            raise HTTPException(404, f"There is nothing at /{path}.")
        return FileResponse(STATIC / "index.html", headers=_HEADERS)


class _Assets(StaticFiles):
    """Files with the headers that the page itself has."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response
