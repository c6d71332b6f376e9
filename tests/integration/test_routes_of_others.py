"""Every REST route, with the job, export, log and account of somebody else in its path."""

import re

import httpx
import pytest

from appliance.api.app import rest_rules
from appliance.core.access_rules.model import Cost, Identity
from appliance.core.cluster.access import Action
from protos.cluster import cluster_pb2 as pb
from protos.csctl import api_pb2
from tests.fuzz.rest import BODIES
from tests.support.appliance_process import running_appliance, wait_for
from tests.support.rest import mint, rest_client

SECONDS = 300
FOR_ALL = (Action.READ, Action.SUBMIT)
OWN = ("GET /api/v1/tokens",)
"""Without a name in the request it is about the caller's own."""
BODIES_OF_OTHERS = {**BODIES, "POST /api/v1/tokens": {"user": "ada", "label": "x", "days": 1}}
ROUTES = {
    route: rule
    for route, rule in rest_rules().items()
    if rule.identity is not Identity.NOTHING and rule.cost is not Cost.HEAVY
}


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    with running_appliance(tmp_path_factory.mktemp("data"), "--tls", "--tokens") as running:
        yield running


@pytest.fixture(scope="module")
def names(appliance) -> dict[str, str]:
    """What ada has, by the name of a path's parameter; and the secret of her job's authority."""
    token = mint(appliance, "ada", "--uid", "1000", "--gid", "100")
    who = (("auth-token", token),)
    request = pb.CompileJobRequest(compile_dir_relative_path="cached_compile")
    job = appliance.cluster.InitCompileJob(request, metadata=who, timeout=SECONDS).job_id
    with rest_client(appliance, token) as ada:
        wait_for(lambda: ada.get(f"jobs/{job}").json()["phase"] == "RUNNING", what="RUNNING")
        export = ada.post(f"jobs/{job}/log-exports", json={}).json()["id"]
        token_id = ada.get("tokens").json()["items"][0]["id"]
    stored = b"".join(path.read_bytes() for path in appliance.data_dir.glob("state.db*"))
    found = re.search(rf"{job}-coordinator-0-(\w{{20}})".encode(), stored)
    assert found is not None
    return {
        "job_id": job,
        "export_id": export,
        "pod": "coordinator-0",
        "number": "0",
        "token_id": token_id,
        "secret": found.group(1).decode(),
    }


def path_of(route: str, names: dict[str, str]) -> str:
    path = route.partition(" ")[2]
    kinds = {"systems": "systemf0", "sessions": "job-operator", "users": "ada"}
    name = kinds.get(path.split("/")[3], "ada") if path.count("/") > 2 else "ada"
    return re.sub(r"{(\w+)}", lambda found: names.get(found.group(1), name), path)


def asked(client: httpx.Client, route: str, names: dict[str, str]) -> httpx.Response:
    method = route.partition(" ")[0]
    body = BODIES_OF_OTHERS.get(route)
    url = client.base_url.copy_with(path=path_of(route, names))
    return client.request(method, url, **({} if body is None else {"json": body}))


def test_nobody_else_gets_anything_of_a_job_that_is_not_for_all(appliance, names):
    token = mint(appliance, "eve", "--uid", "1001", "--gid", "300")
    wrong, num_refused = {}, 0
    with rest_client(appliance, token, timeout=SECONDS) as eve:
        for route, rule in sorted(ROUTES.items()):
            is_for_all = rule.action in FOR_ALL
            if is_for_all and (route.endswith("/stream") or not route.startswith("GET ")):
                continue
            answer = asked(eve, route, names)
            num_refused += answer.status_code == 403
            is_right = answer.status_code < 500 if is_for_all else answer.status_code in (403, 404)
            if not (is_right or route in OWN) or names["secret"] in answer.text:
                wrong[route] = answer.status_code, answer.text[:200]
        assert wrong == {}
        assert num_refused >= 25
        assert names["token_id"] not in eve.get("tokens").text
    who = (("auth-token", token),)
    for kind in ("job", "system", "node"):
        listed = api_pb2.GetRequest(type=kind, accept=api_pb2.PROTOBUF_METHOD)
        listed.options.all_states = True
        raw = appliance.csctl.Get(listed, metadata=who, timeout=SECONDS).raw
        assert names["secret"].encode() not in raw
    assert names["secret"] not in appliance.log()


def test_nobody_without_a_token_gets_anything(appliance, names):
    """And after twenty times is told to wait."""
    with rest_client(appliance, timeout=SECONDS) as nobody:
        codes = {route: asked(nobody, route, names).status_code for route in ROUTES}
    assert {route: code for route, code in codes.items() if code not in (401, 429)} == {}
    assert 401 in codes.values()
