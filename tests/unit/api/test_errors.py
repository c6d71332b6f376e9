"""Every error leaves REST as a problem document with the status of its kind."""

import asyncio

import httpx
import pytest
from fastapi import FastAPI

from appliance.api.errors import install_error_handlers
from appliance.core.errors import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    InternalError,
    NotFoundError,
    StaleError,
    TooLargeError,
    TooManyRequestsError,
    TooSlowError,
    UnauthenticatedError,
    UserError,
)


def answer_to(error):
    app = FastAPI()
    install_error_handlers(app)

    @app.get("/it")
    def fail() -> None:
        raise error

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.get("/it")

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (UserError, 400),
        (UnauthenticatedError, 401),
        (ForbiddenError, 403),
        (NotFoundError, 404),
        (TooSlowError, 408),
        (ConflictError, 409),
        (StaleError, 412),
        (TooLargeError, 413),
        (TooManyRequestsError, 429),
        (InternalError, 500),
        (ClusterError, 503),
    ],
)
def test_an_error_of_ours_has_its_status_and_its_sentence(kind, status):
    answer = answer_to(kind("Job wsjob-a is gone.", hint="List the jobs."))
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert (answer.json()["detail"], answer.json()["hint"]) == (
        "Job wsjob-a is gone.",
        "List the jobs.",
    )


def test_who_is_not_known_learns_how_to_authenticate():
    assert answer_to(UnauthenticatedError("No token.")).headers["www-authenticate"] == "Bearer"


def test_a_defect_shows_nothing_of_itself():
    answer = answer_to(ZeroDivisionError("secret"))
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.json()["detail"] == "The appliance failed in GET /it."


def test_text_that_cannot_be_encoded_is_sent_escaped():
    assert answer_to(UserError("name \udcff")).json()["detail"] == "name \\udcff"
