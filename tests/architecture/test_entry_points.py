"""Every way in is in the table, and docs/entry-points.md says what the table says.

`ENTRY_POINTS_WRITE=1 pytest tests/architecture/test_entry_points.py` writes the document anew.
"""

import ast
import os
import re
from pathlib import Path

import pytest
from fastapi import APIRouter
from fastapi.routing import iter_route_contexts
from google.protobuf import descriptor_pool

from appliance.api.app import rest_rules
from appliance.api.entry import entry_router, rules_of
from appliance.core.access_rules.methods import METHODS
from appliance.core.access_rules.model import ALLOWANCES, GIB, KIB, MIB, Identity, Rule
from appliance.core.access_rules.open_paths import OPEN
from appliance.core.cluster.access import Action, Principal, Target, UserRole, refusal
from appliance.core.cluster.records import User
from appliance.core.errors import InternalError
from appliance.dashboard.pages import install_pages
from protos.appliance import appliance_service_pb2
from protos.cluster import cluster_pb2
from protos.csadm import csadm_pb2
from protos.csctl import api_pb2
from protos.wsc.v1 import (
    drivers_pb2,
    events_pb2,
    logs_pb2,
    maintenance_pb2,
    management_pb2,
    nodes_pb2,
    pods_pb2,
    queue_pb2,
    runs_pb2,
)
from tests.support.entry_points.sockets import COORDINATOR_SERVICE, INNER_METHODS, SOCKETS
from tests.support.entry_points.written_files import FILES
from tests.support.rest import described_app

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "entry-points.md"
PROTOS = (
    *(cluster_pb2, csadm_pb2, api_pb2, drivers_pb2, events_pb2, logs_pb2, maintenance_pb2),
    *(management_pb2, nodes_pb2, pods_pb2, queue_pb2, runs_pb2, appliance_service_pb2),
)
OPENS = re.compile(
    r"\.(listen|add_insecure_port|add_secure_port)\(|start_server\(|create_unix_server\(|\.create_server\(|uvicorn\.Server\("
    r"|return serve_(client|inside)\("
)
"""Calls by which something begins to listen."""
WRITES = re.compile(r"data_dir\s*/\s*\"([^\"]+)\"")


def sources():
    for package in ("appliance", "workers"):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path, path.read_text()


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def joined_parts(tree):
    """Yield which class of ours is a part of which servicer, as `joined` puts them together."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "joined":
            base, *parts = node.args
            for part in parts:
                yield ast.unparse(part.func), ast.unparse(base).rpartition(".")[2]


def served_methods() -> dict[str, str]:
    """Return the methods that a servicer of ours has, with the class, by full name."""
    bodies = {}
    trees = [ast.parse(text) for _, text in sources()]
    parts = dict(pair for tree in trees for pair in joined_parts(tree))
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names = {each.name for each in node.body if isinstance(each, ast.AsyncFunctionDef)}
                names |= {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
                bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
                for base in (*bases, *filter(None, [parts.get(node.name)])):
                    text_of_base = base.partition("[")[0]
                    if text_of_base.endswith("Servicer"):
                        bodies.setdefault(text_of_base, set()).update(names)
    found = {}
    for proto in PROTOS:
        for service in proto.DESCRIPTOR.services_by_name.values():
            ours = bodies.get(f"{service.name}Servicer", set())
            for method in service.methods:
                if method.name in ours:
                    found[f"/{service.full_name}/{method.name}"] = service.full_name
    return found


def test_every_served_method_is_in_the_table_and_none_besides():
    served = {name for name, service in served_methods().items() if service != COORDINATOR_SERVICE}
    assert served == {*METHODS, *INNER_METHODS}
    assert set(METHODS).isdisjoint(INNER_METHODS)


def test_every_rule_finds_its_object_in_the_message():
    pool = descriptor_pool.Default()
    for name, rule in METHODS.items():
        service, _, method = name.removeprefix("/").partition("/")
        message = pool.FindServiceByName(service).methods_by_name[method].input_type
        if rule.field and rule.identity is Identity.CALLER:
            assert rule.field in message.fields_by_name, (name, rule.field)


def test_every_route_has_a_rule_and_names_its_object_by_a_parameter_of_its_path():
    rules = rest_rules()
    for route, rule in rules.items():
        if rule.field and not rule.is_decided_by_body:
            assert f"{{{rule.field}}}" in route, (route, rule.field)


def test_a_route_without_a_rule_is_refused():
    def new() -> None:
        """Say nothing."""

    with pytest.raises(InternalError, match="says 0 rules"):
        entry_router("new").get("/new")(new)
    plain = APIRouter()
    plain.get("/new")(new)
    with pytest.raises(InternalError, match="does not pass the gate"):
        rules_of([("", plain)])


def test_every_path_that_is_served_is_a_route_with_a_rule_or_a_page(tmp_path):
    app = described_app(tmp_path)
    install_pages(app)
    served = {
        f"{method} {context.path}"
        for context in iter_route_contexts(app.routes)
        for method in getattr(context, "methods", None) or ["GET"]
        if method != "HEAD"
    }
    pages = {page.replace("/*", "/{path:path}") for page in OPEN}
    pages = pages - {"GET /assets/{path:path}"} | {"GET /assets"}
    assert served == {*rest_rules(), *pages}


def test_nobody_who_is_blocked_or_a_stranger_changes_what_is_not_theirs():
    """The rules are asked themselves: whoever owns nothing may only look and submit."""
    stranger = Principal(user=User(uid=7, gid=7, name="eve"))
    blocked = Principal(user=User(uid=7, gid=7, name="eve"), is_blocked=True)
    theirs = Target(kind="job", name="x", owner=User(uid=8, gid=8, name="ada"), session="s")
    for rule in {*METHODS.values(), *rest_rules().values()}:
        for action in (rule.action, *rule.or_actions):
            if action in (Action.READ, Action.SUBMIT):
                continue
            assert refusal(stranger, action, theirs), rule
            if action is not Action.END_JOB:
                assert refusal(blocked, action, theirs), rule


def test_every_module_that_listens_is_in_the_table():
    listening = {module_of(path) for path, text in sources() if OPENS.search(text)}
    # Events of SQL; a look whether a port is free, closed again at once; what the programs of pods
    # listen with, which are in the table themselves.
    helpers = {
        *("appliance.storage.engine.database", "appliance.management.store.persistent_ports"),
        *("appliance.pods.served_pod", "appliance.pods.client.client_front"),
        "appliance.wire.connections.front_thread",
    }
    named = {socket.module for socket in SOCKETS}
    assert listening - helpers <= named, listening - helpers - named
    for name in INNER_METHODS.values():
        assert name in {socket.name for socket in SOCKETS}


def test_every_file_of_the_data_directory_is_in_the_table():
    named = {file.place.removeprefix("DATA/").partition("/")[0] for file in FILES}
    for path, text in sources():
        for match in WRITES.finditer(text):
            assert match.group(1) in named, (module_of(path), match.group(1))
    for file in FILES:
        assert (ROOT / Path(*file.module.split(".")).with_suffix(".py")).exists(), file.module


def test_the_document_says_what_the_table_says():
    text = document()
    if os.environ.get("ENTRY_POINTS_WRITE"):
        DOCUMENT.write_text(text)
    assert DOCUMENT.read_text() == text, (
        "run ENTRY_POINTS_WRITE=1 pytest tests/architecture/test_entry_points.py"
    )


HEAD = """\
# Every way into the appliance

Generated from `appliance/core/access_rules`, `tests/support/entry_points` and the signatures of the
REST routes by `ENTRY_POINTS_WRITE=1 pytest tests/architecture/test_entry_points.py`; the test fails
when something is served, listened at or written that is not here. What is not here is refused.

One place decides: `Gate` in `appliance/management/rpc/access_edge.py`. `enter` runs before anything
of a message or a body is read: it finds out who calls and whether they have too much open. `decide`
runs once the object is known, and asks `appliance/core/cluster/access.py`.
"""


def document() -> str:
    """Return the whole document."""
    parts = [HEAD, _costs(), _methods(), _routes(), _inner(), _sockets(), _files()]
    return "\n".join(parts)


def _table(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"## {title}", "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _costs() -> str:
    head = (
        "cost",
        "open per caller",
        "open in all",
        "of strangers",
        "new per second",
        "at once after a pause",
    )
    rows = [
        (
            cost.value,
            f"{allowed.per_caller:,}",
            f"{allowed.total:,}",
            f"{allowed.strangers:,}",
            f"{allowed.per_second:g}",
            f"{allowed.burst:,}",
        )
        for cost, allowed in ALLOWANCES.items()
    ]
    text = _table("Costs", head, rows)
    return text + (
        "\nAdministrators of the cluster are held to the third column alone. Strangers are callers "
        "who have proved nothing: all of one address count as one caller, and may have half of "
        "what is free in the fourth column.\n"
    )


def _methods() -> str:
    rows = [(f"`{name.removeprefix('/')}`", *_said(rule)) for name, rule in METHODS.items()]
    title = "gRPC methods of management's port for clients"
    return _table(title, ("method", "proves", "who may", "size", "cost"), rows)


def _routes() -> str:
    rows = [(f"`{route}`", *_said(rule)) for route, rule in sorted(rest_rules().items())]
    rows += [(f"`{page}`", "nothing", "everybody", "0", "light") for page in OPEN]
    return _table("REST routes", ("route", "proves", "who may", "size", "cost"), rows)


def _inner() -> str:
    rows = [(f"`{name.removeprefix('/')}`", socket) for name, socket in INNER_METHODS.items()]
    rows.append((f"`{COORDINATOR_SERVICE}/*`", "coordinator"))
    return _table("gRPC methods behind other sockets", ("method", "socket"), rows)


def _sockets() -> str:
    head = ("socket", "place", "opened by", "speaks", "who", "check", "size limit", "cost limit")
    rows = [
        (
            *(socket.name, f"`{socket.place}`", f"`{socket.module}`", socket.speaks, socket.who),
            *(socket.check, socket.size_limit, socket.cost_limit),
        )
        for socket in SOCKETS
    ]
    return _table("Sockets", head, rows)


def _files() -> str:
    rows = [
        (
            *(f"`{file.place}`", f"`{file.module}`", file.holds),
            *(f"`{file.mode:04o}`", file.who, "yes" if file.is_secret else ""),
        )
        for file in FILES
    ]
    return _table("Files", ("file", "made by", "holds", "mode", "who", "secret"), rows)


def _said(rule: Rule) -> tuple[str, str, str, str]:
    if rule.identity is Identity.NOTHING:
        who = "everybody"
    else:
        kinds = [f"{action.value} ({_who(action)})" for action in (rule.action, *rule.or_actions)]
        who = f"{rule.kind}: {' or '.join(kinds)}"
    return rule.identity.value, who, _size(rule.max_bytes), rule.cost.value


def _who(action: Action) -> str:
    """Say who may do something, as found by asking the rules."""
    ada = User(uid=8, gid=8, name="ada")
    target = Target(kind="job", name="x", owner=ada, session="s")
    people = {
        "everybody": Principal(user=User(uid=7, gid=7, name="eve")),
        "the owner": Principal(user=ada),
        "the owner's group": Principal(user=User(uid=9, gid=8, name="bob")),
        "administrators of its session": Principal(
            user=User(uid=5, gid=5), role=UserRole.SESSION_ADMIN, sessions=("s",)
        ),
        "administrators": Principal(user=User(uid=6, gid=6), role=UserRole.CLUSTER_ADMIN),
    }
    may = [who for who, principal in people.items() if refusal(principal, action, target) is None]
    return "everybody" if "everybody" in may else ", ".join(may)


def _size(num_bytes: int) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if num_bytes >= unit:
            return f"{num_bytes // unit} {name}"
    return f"{num_bytes} B"
