"""Login and logout of browsers, and the identity of the caller.

A browser trades a token for a login: a cookie that scripts cannot read and that other sites' pages
cannot send. Its end is the token's, or twelve hours.
"""

from typing import Annotated

from fastapi import Request, Response

from appliance.api.entry import Entry, enter, entry_router
from appliance.api.problems import problems
from appliance.api.services import LOGIN_COOKIE, Services, connection_of, login_of
from appliance.api.user_routes.access_schemas import LoginRequest, Me
from appliance.core.access_rules import rules
from appliance.core.cluster.records import User
from appliance.management.access.tokens import Minted

router = entry_router("login")


@router.get("/me", responses=problems(401))
def get_me(entry: Annotated[Entry, enter(rules.READ)], services: Services, request: Request) -> Me:
    """Return who asks, what they may do, and the proof that a login's changes must carry."""
    return Me.of(
        entry.caller,
        needs_token=services.access.needs_token,
        csrf_token=services.access.tokens.proof(login_of(request.headers)),
    )


@router.post("/login", responses=problems(401, 422))
def log_in(
    wanted: LoginRequest,
    entry: Annotated[Entry, enter(rules.LOGIN)],
    services: Services,
    request: Request,
    response: Response,
) -> Me:
    """Trade a token for a login: sets the cookie."""
    tokens, text = services.access.tokens, wanted.token.get_secret_value()
    connection = connection_of(request)
    login = services.gate.prove(connection, lambda: tokens.log_in(text, connection.uid))
    principal = services.access.identify(User(), login.text, connection.uid)
    set_login(response, login, has_tls=services.has_tls)
    return Me.of(
        principal,
        needs_token=services.access.needs_token,
        csrf_token=services.access.tokens.proof(login.text),
    )


def set_login(response: Response, login: Minted, *, has_tls: bool) -> None:
    """Give a browser the cookie of its login."""
    expires_at = login.record.expires_at
    assert expires_at is not None  # every login ends
    response.set_cookie(
        LOGIN_COOKIE,
        login.text,
        expires=expires_at,
        path="/",
        secure=has_tls,
        httponly=True,
        samesite="strict",
    )


@router.post("/logout", status_code=204, responses=problems(401, 403))
def log_out(entry: Annotated[Entry, enter(rules.READ)], services: Services) -> Response:
    """End the login and remove the cookie; a bearer token is left as it is."""
    record = services.access.tokens.find(entry.caller.token) if entry.caller.token else None
    if record is not None and record.is_login:
        services.access.tokens.revoke(record.id)
    response = Response(status_code=204)
    response.delete_cookie(LOGIN_COOKIE, path="/")
    return response
