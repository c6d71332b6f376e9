"""Login at an identity provider: the redirect to it, and the callback.

The browser goes there with a sealed cookie of ten minutes. It is `SameSite=Lax`, since the way back
is a link of another site, which carries no stricter one; the login's own cookie is strict.
"""

import html
from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.errors import status_of
from appliance.api.problems import problems
from appliance.api.services import Services, connection_of
from appliance.api.user_routes.access_schemas import LoginWays
from appliance.api.user_routes.login import set_login
from appliance.core.access_rules import rules
from appliance.core.errors import NotFoundError, UnauthenticatedError, WscError
from appliance.management.access.provider_options import CALLBACK_PATH
from appliance.management.access.single_sign_on import ATTEMPT_SECONDS, SingleSignOn

router = entry_router("login")

_COOKIE = "wsc_login_begun"
_PATH = CALLBACK_PATH.rpartition("/")[0]
_MAX_TEXT = 4096
_Text = Annotated[str, Query(max_length=_MAX_TEXT)]


@router.get("/login", responses=problems())
def get_login_ways(entry: Annotated[Entry, enter(rules.PUBLIC)], services: Services) -> LoginWays:
    """Return how one can log in; answered to everybody."""
    ways = services.single_sign_on
    return LoginWays(
        needs_login=services.access.needs_token, provider=ways.shown_name if ways else ""
    )


@router.get(
    "/login/oidc",
    status_code=303,
    response_class=RedirectResponse,
    responses=problems(404, 422, 503),
)
def begin_provider_login(
    entry: Annotated[Entry, enter(rules.PROVIDER_LOGIN)],
    services: Services,
    page: Annotated[
        str, Query(max_length=512, pattern=r"^/([A-Za-z0-9_.~-][A-Za-z0-9/_.~-]*)?$")
    ] = "/",
) -> Response:
    """Go to the identity provider; `page` is shown afterwards."""
    begun = _single_sign_on(services).begin(page)
    response = RedirectResponse(begun.url, status_code=303)
    response.set_cookie(
        _COOKIE,
        begun.sealed,
        max_age=ATTEMPT_SECONDS,
        path=_PATH,
        secure=services.has_tls,
        httponly=True,
        samesite="lax",
    )
    return response


@router.get(
    "/login/oidc/callback",
    status_code=303,
    response_class=RedirectResponse,
    responses=problems(401, 403, 404, 409, 422, 503),
)
def end_provider_login(
    entry: Annotated[Entry, enter(rules.PROVIDER_LOGIN)],
    services: Services,
    request: Request,
    *,
    code: _Text = "",
    state: _Text = "",
    error: _Text = "",
) -> Response:
    """Come back from the identity provider: sets the cookie of the login."""
    try:
        response = _end(services, request, code=code, state=state, error=error)
    except WscError as problem:
        if "text/html" not in request.headers.get("accept", ""):
            raise
        response = HTMLResponse(_page_of(problem), status_code=status_of(problem))
    response.delete_cookie(_COOKIE, path=_PATH)
    return response


def _end(services: Services, request: Request, *, code: str, state: str, error: str) -> Response:
    single_sign_on = _single_sign_on(services)
    if error:
        raise UnauthenticatedError(
            f"The identity provider refuses the login: {error[:100]!r}.", hint="Log in again."
        )
    sealed = request.cookies.get(_COOKIE, "")
    issuer = request.query_params.get("iss", "")
    connection = connection_of(request)
    login, page = services.gate.prove(
        connection,
        lambda: single_sign_on.finish(
            sealed=sealed, state=state, code=code, peer_uid=connection.uid, issuer=issuer
        ),
    )
    response = RedirectResponse(page, status_code=303)
    set_login(response, login, has_tls=services.has_tls)
    return response


def _single_sign_on(services: Services) -> SingleSignOn:
    if services.single_sign_on is None:
        raise NotFoundError(
            "This appliance has no identity provider.",
            hint="Log in with a token, or have the administrator start it with --oidc.",
        )
    return services.single_sign_on


def _page_of(problem: WscError) -> str:
    text = html.escape(_shown(problem))
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Not logged in</title>"
        f"<h1>Not logged in</h1><p>{text}</p><p><a href=/>Back</a></p></html>"
    )


def _shown(problem: WscError) -> str:
    return str(problem).encode(errors="backslashreplace").decode()
