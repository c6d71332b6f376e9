"""REST against a running appliance."""

import os
import ssl
from contextlib import contextmanager

import httpx

from appliance.api.app import create_app
from appliance.api.services import ACCEPTED
from appliance.core.clock import SystemClock
from appliance.management.access.allowances import Allowances
from appliance.management.access.authorization import open_access
from appliance.management.background.estimates import Estimates
from appliance.management.rpc.access_edge import Gate
from appliance.management.services import Services
from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from appliance.wire.connections.accepted import Accepted
from tests.support.appliance_process import ApplianceProcess, run_command


def described_app(path, **services):
    """Return the application over a gate, and of management's other services those given."""
    clock = SystemClock()
    state = State.over(Database.open_sqlite(path / "state.db"), clock)
    state.sessions.ensure()
    access = open_access(
        path, state.database, clock, needs_token=services.pop("needs_token", False)
    )
    gate = Gate(access, state, None, Allowances(clock), services.get("exports"))
    others = dict.fromkeys(Services.__dataclass_fields__)
    fields = {
        **others,
        "access": access,
        "state": state,
        "gate": gate,
        "estimates": Estimates(),
    }
    app = create_app(Services(**{**fields, **services}))
    app.add_middleware(_OfOperator)
    return app


class _OfOperator:
    """ASGI middleware by which every request comes by a connection of who runs the tests."""

    def __init__(self, app):
        self._app = app

    async def __call__(self, scope, receive, send):
        whose = Accepted(host="here", uid=os.getuid())
        await self._app({**scope, "state": {ACCEPTED: whose}}, receive, send)


@contextmanager
def rest_client(appliance: ApplianceProcess, token: str = "", **options):
    """Yield a client of the appliance's REST interface."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    root = f"{appliance.state.rest_url}/api/v1/"
    if pem := appliance.authority_pem():
        options = {"verify": ssl.create_default_context(cadata=pem.decode()), **options}
    with httpx.Client(base_url=root, headers=headers, **{"timeout": 120, **options}) as client:
        yield client


def mint(appliance: ApplianceProcess, name: str, *arguments: str) -> str:
    """Mint a token as whoever runs the appliance does."""
    answer = run_command("token", "create", name, *arguments, "--data-dir", str(appliance.data_dir))
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()
