"""Who calls, whether they may, and what is written down."""

import os
from functools import partial
from itertools import count
from types import SimpleNamespace

import jwt
import pytest

from appliance.core.access_rules.model import ALLOWANCES, Cost
from appliance.core.cluster.access import Action, Principal, Target, UserRole
from appliance.core.cluster.records import User
from appliance.core.errors import (
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
    UnauthenticatedError,
    UserError,
)
from appliance.core.ids import JobId
from appliance.core.queries.audit_trail import AuditFilter
from appliance.management.access.allowances import Allowances
from appliance.management.access.authorization import Access, AccessOptions, open_access
from appliance.management.access.tokens import LOGIN_SECONDS, Tokens
from appliance.management.rpc.access_edge import Gate
from appliance.management.rpc.connections import RECENT_SECONDS, Connections
from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from appliance.wire.caller import caller
from appliance.wire.connections.accepted import Accepted
from protos.csctl import api_pb2 as csctl_pb2
from protos.wsc.v1 import events_pb2, logs_pb2, queue_pb2
from tests.support.clock import FakeClock
from tests.support.management import new_job

ADA = User(uid=1000, gid=100, name="ada")
OPERATOR = User(uid=500, gid=500, name="ops")
YEAR = 365 * 86_400.0


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def database(tmp_path):
    database = Database.open_sqlite(tmp_path / "state.db")
    yield database
    database.close()


HERE = Accepted(host="127.0.0.1", uid=OPERATOR.uid)


def make_access(
    database, clock, *, needs_token=False, serves_all=False, is_vouched_for=False, key=b"k" * 32
) -> Access:
    repository = State.over(database, clock).access
    tokens = Tokens(repository, key, clock)
    options = AccessOptions(
        needs_token=needs_token,
        operator=OPERATOR,
        serves_all=serves_all,
        is_vouched_for=is_vouched_for,
    )
    return Access(repository, tokens, options, clock)


@pytest.fixture
def access(database, clock):
    access = make_access(database, clock, needs_token=True)
    access.create_account("ada", uid=1000, gid=100, role=UserRole.USER)
    return access


def test_a_token_says_who_calls(access):
    token = access.tokens.mint("ada")
    principal = access.identify(ADA, token.text, OPERATOR.uid)
    assert (principal.user, principal.role, principal.token) == (
        ADA,
        UserRole.USER,
        token.record.id,
    )
    assert access.identify(User(), token.text, OPERATOR.uid).user == ADA


def test_a_call_without_a_token_is_refused_where_tokens_are_needed(access):
    with pytest.raises(UnauthenticatedError, match="wants a token"):
        access.identify(ADA, "", OPERATOR.uid)


def test_a_call_that_claims_another_user_than_its_token_is_refused(access):
    text = access.tokens.mint("ada").text
    with pytest.raises(UnauthenticatedError, match=r"'eve'.*'ada'"):
        access.identify(User(uid=1001, gid=100, name="eve"), text, OPERATOR.uid)


@pytest.mark.parametrize("forge", ["other key", "no signature", "garbage"])
def test_a_forged_token_is_refused(access, database, clock, forge):
    forged = {
        "other key": make_access(database, clock, key=b"x" * 32).tokens.mint("ada").text,
        "no signature": jwt.encode(
            {"iss": "wafer-appliance", "sub": "ada", "jti": "tok-1"}, key="", algorithm="none"
        ),
        "garbage": "Token=abc",
    }[forge]
    with pytest.raises(UnauthenticatedError, match="not valid"):
        access.identify(ADA, forged, OPERATOR.uid)


def test_a_token_ends_at_its_time(access, clock):
    text = access.tokens.mint("ada", seconds=60).text
    assert access.identify(ADA, text, OPERATOR.uid)
    clock.advance(61)
    with pytest.raises(UnauthenticatedError, match="has expired"):
        access.identify(ADA, text, OPERATOR.uid)


@pytest.mark.parametrize("seconds", [-10 * YEAR, 10 * YEAR], ids=["behind", "ahead"])
def test_a_token_is_judged_by_the_appliances_clock_alone(access, clock, seconds):
    """Whatever the machine's own clock says of when it was made and when it ends."""
    clock.advance(seconds)
    text = access.tokens.mint("ada", seconds=60).text
    assert access.identify(ADA, text, OPERATOR.uid)
    clock.advance(61)
    with pytest.raises(UnauthenticatedError, match="has expired"):
        access.identify(ADA, text, OPERATOR.uid)


def test_a_revoked_token_is_refused_elsewhere_within_a_second(access, database, clock):
    token = access.tokens.mint("ada")
    elsewhere = make_access(database, clock)
    assert access.identify(ADA, token.text, OPERATOR.uid)
    elsewhere.tokens.revoke(token.record.id)
    clock.advance(1.1)
    with pytest.raises(UnauthenticatedError, match="was revoked"):
        access.identify(ADA, token.text, OPERATOR.uid)


def test_a_new_users_token_is_taken_at_once(access, database, clock):
    access.identify(ADA, access.tokens.mint("ada").text, OPERATOR.uid)
    elsewhere = make_access(database, clock)
    elsewhere.create_account("bob", uid=1001, gid=100, role=UserRole.USER)
    token = elsewhere.tokens.mint("bob")
    assert access.identify(User(), token.text, OPERATOR.uid).user.name == "bob"


def test_a_login_ends_with_its_token(access, clock):
    token = access.tokens.mint("ada", seconds=LOGIN_SECONDS * 9)
    login = access.tokens.log_in(token.text, OPERATOR.uid)
    assert access.identify(User(), login.text, OPERATOR.uid).user == ADA
    assert (login.record.expires_at - clock.now()).total_seconds() == LOGIN_SECONDS
    access.tokens.revoke(token.record.id)
    with pytest.raises(UnauthenticatedError):
        access.identify(User(), login.text, OPERATOR.uid)
    with pytest.raises(UnauthenticatedError):
        access.tokens.log_in(login.text, OPERATOR.uid)


@pytest.mark.parametrize("whose", [1000, 0, None])
def test_a_login_is_of_the_browser_alone_that_made_it(access, whose):
    token = access.tokens.mint("ada")
    login = access.tokens.log_in(token.text, whose)
    assert access.identify(User(), login.text, whose).user == ADA
    for other in {1000, 1001, 0, None} - {whose}:
        assert access.identify(User(), token.text, other).user == ADA  # a token says it alone
        with pytest.raises(UnauthenticatedError, match="made from elsewhere, or by another user"):
            access.identify(User(), login.text, other)


def test_a_token_of_another_kind_acts_in_somebodys_name(access):
    access.accept(lambda token: ADA if token == "a driver's" else None)
    assert access.identify(ADA, "a driver's", OPERATOR.uid).user == ADA
    with pytest.raises(UnauthenticatedError, match="its token says"):
        access.identify(OPERATOR, "a driver's", OPERATOR.uid)


def test_a_runs_token_ends_with_its_users_account(access):
    access.accept(lambda token: ADA if token == "a driver's" else None)
    seen = access.identify(ADA, "a driver's", None)
    access.delete_account("ada")
    with pytest.raises(UnauthenticatedError, match="who is gone"):
        access.identify(ADA, "a driver's", None)
    assert access.still(seen) is None
    access.create_account("eve", uid=ADA.uid, gid=ADA.gid, role=UserRole.CLUSTER_ADMIN)
    with pytest.raises(UnauthenticatedError, match="who is gone"):  # not with eve's rights, either
        access.identify(ADA, "a driver's", None)
    assert access.still(seen) is None


def test_a_runs_token_needs_no_account_where_none_is_needed(database, clock):
    for options in ({"needs_token": False}, {"needs_token": True, "is_vouched_for": True}):
        access = make_access(database, clock, **options)
        access.accept(lambda token: ADA if token == "a driver's" else None)
        seen = access.identify(ADA, "a driver's", None)
        assert access.still(seen) == seen


def test_a_change_of_role_holds_for_tokens_that_are_out(access, clock):
    text = access.tokens.mint("ada").text
    access.change_account("ada", role=UserRole.CLUSTER_ADMIN)
    assert access.identify(ADA, text, OPERATOR.uid).role is UserRole.CLUSTER_ADMIN


def test_the_client_reads_an_expiry_in_every_token(access, clock):
    """The client takes a token without one for expired."""
    claims = jwt.decode(access.tokens.mint("ada").text, options={"verify_signature": False})
    assert claims["exp"] > clock.now().timestamp() + 10 * 365 * 86400


def test_without_tokens_the_operator_is_believed(database, clock):
    access = make_access(database, clock)
    assert access.identify(ADA, "", OPERATOR.uid).role is UserRole.USER
    root = User(uid=0, gid=0, name="root")
    assert access.identify(root, "", OPERATOR.uid).role is UserRole.CLUSTER_ADMIN
    assert access.identify(OPERATOR, "", OPERATOR.uid).role is UserRole.CLUSTER_ADMIN
    nameless = access.identify(User(), "", OPERATOR.uid)
    assert (nameless.user, nameless.role) == (OPERATOR, UserRole.CLUSTER_ADMIN)


def test_without_tokens_nobody_else_is_served_unless_the_machines_users_are(database, clock):
    with pytest.raises(ForbiddenError, match=r"serves ops \(uid 500\) alone.*uid 65534"):
        make_access(database, clock).identify(User(), "", 65534)
    access = make_access(database, clock, serves_all=True)
    found = access.identify(User(), "", 65534)
    assert (found.user.uid, found.user.name, found.role) == (65534, "nobody", UserRole.USER)


def test_a_blocked_user_is_known_by_uid(database, clock):
    access = make_access(database, clock)
    access.block(1000)
    assert access.identify(ADA, "", OPERATOR.uid).is_blocked
    assert [account.uid for account in access.blocked()] == [1000]
    access.unblock(1000)
    assert not access.identify(ADA, "", OPERATOR.uid).is_blocked
    with pytest.raises(NotFoundError):
        access.unblock(4711)


def test_changes_forbidden_ones_and_failures_are_written_down(access):
    principal = access.identify(ADA, access.tokens.mint("ada").text, OPERATOR.uid)
    heard = []
    access.on_change(lambda kind, name: heard.append((kind, name)))
    mine, theirs = (
        Target(kind="job", name="wsjob-1", owner=ADA),
        Target(kind="job", name="wsjob-2", owner=OPERATOR),
    )
    with access.change(principal, Action.END_JOB, mine, entry_point="rest", detail="cancel"):
        pass
    with pytest.raises(ForbiddenError):
        access.begin(principal, Action.END_JOB, theirs, entry_point="grpc")
    with (
        pytest.raises(UserError),
        access.change(principal, Action.EDIT_JOB, mine, entry_point="rest"),
    ):
        raise UserError("Label x is not valid.")
    got = [
        (row.entry_point, row.user, row.action, row.name, row.problem[:20])
        for row in access.audit(AuditFilter())
    ]
    assert got == [
        ("rest", "ada", "edit-job", "wsjob-1", "Label x is not valid"),
        ("grpc", "ada", "end-job", "wsjob-2", "User ada (uid 1000) "),
        ("rest", "ada", "end-job", "wsjob-1", ""),
    ]
    assert [row.name for row in access.audit(AuditFilter(name="wsjob-2"))] == ["wsjob-2"]
    assert heard == [("job", "wsjob-1")]


def keep_nothing(write):
    raise AssertionError("nothing is to be kept")


SERVICE = "/cluster.cluster_mgmt_pb.ClusterManagement"


class OneExport:
    def job_of(self, export_id):
        return JobId("wsjob-a")


def make_gate(access, database, clock):
    state = State.over(database, clock)
    return Gate(access, state, keep_nothing, Allowances(clock), OneExport())


def admitted(gate, method, who, request=None):
    """Go through both halves of the gate."""
    entered = gate.enter_call(method, who, HERE)
    with entered.hold:
        return gate.decide(entered, partial(getattr, request), entry_point="grpc", detail="")


def test_the_gate_lets_the_clients_nameless_streams_pass(database, clock):
    gate = make_gate(open_access_with_tokens(database, clock), database, clock)
    nobody = caller(())
    assert admitted(gate, f"{SERVICE}/HeartbeatV2", nobody) is None
    assert admitted(gate, f"{SERVICE}/GetServerConfig", nobody) is None
    with pytest.raises(UnauthenticatedError):
        gate.enter_call(f"{SERVICE}/GetJob", nobody, HERE)
    metadata = (("auth-uid", "1000"), ("auth-token", ""))
    with pytest.raises(UnauthenticatedError):
        gate.enter_call(f"{SERVICE}/HeartbeatV2", caller(metadata), HERE)


def repeat(times, function, *arguments):
    for _ in range(times):
        function(*arguments)


def test_strangers_take_no_stream_and_no_first_call_of_clients(database, clock):
    gate = make_gate(open_access_with_tokens(database, clock), database, clock)
    heartbeats, first = f"{SERVICE}/HeartbeatV2", f"{SERVICE}/GetServerConfig"
    nobody, connections = caller(()), Connections(clock)

    def enter(method, place, connection=""):
        likely = connections.likely(connection)
        whose = Accepted(host=place, is_local=False)
        return gate.enter_call(method, nobody, whose, likely)

    for method, cost in ((heartbeats, Cost.CLIENT), (first, Cost.LIGHT)):
        with pytest.raises(TooManyRequestsError, match="that prove nothing are open from there"):
            repeat(ALLOWANCES[cost].total, enter, method, "192.0.2.1")
        enter(method, "192.0.2.2").hold.release()  # who calls from elsewhere is not refused
        connections.proved("a client's connection", Principal(user=OPERATOR))
        enter(method, "192.0.2.1", "a client's connection").hold.release()
        clock.advance(RECENT_SECONDS + 1)
        with pytest.raises(TooManyRequestsError):
            enter(method, "192.0.2.1", "a client's connection")


def test_a_method_without_a_rule_is_for_nobody(database, clock):
    gate = make_gate(make_access(database, clock), database, clock)
    ada = caller((("auth-uid", "1000"), ("auth-gid", "100"), ("auth-username", "ada")))
    for who in (ada, caller(())):
        with pytest.raises(NotImplementedError):
            gate.enter_call("/some.New/Method", who, HERE)


def test_one_caller_does_not_take_all_followers(database, clock):
    gate = make_gate(make_access(database, clock), database, clock)
    ada = caller((("auth-uid", "1000"), ("auth-gid", "100"), ("auth-username", "ada")))
    eve = caller((("auth-uid", "1001"), ("auth-gid", "100"), ("auth-username", "eve")))
    most = ALLOWANCES[Cost.FOLLOW].per_caller
    holds = [gate.enter_call("/wsc.v1.Logs/StreamLog", ada, HERE).hold for _ in range(most)]
    with pytest.raises(TooManyRequestsError, match=f"one caller may have {most}"):
        gate.enter_call("/wsc.v1.Logs/StreamLog", ada, HERE)
    gate.enter_call("/wsc.v1.Logs/StreamLog", eve, HERE).hold.release()
    holds.pop().release()
    gate.enter_call("/wsc.v1.Logs/StreamLog", ada, HERE).hold.release()


def test_a_log_export_is_for_those_who_may_read_the_jobs_logs(database, clock):
    access = make_access(database, clock)
    state = State.over(database, clock)
    state.sessions.ensure()
    state.jobs.create(new_job("wsjob-a"))
    gate = make_gate(access, database, clock)
    request = SimpleNamespace(export_id="export-1")
    eve = caller((("auth-uid", "1001"), ("auth-gid", "101"), ("auth-username", "eve")))
    ada = caller((("auth-uid", "1000"), ("auth-gid", "100"), ("auth-username", "ada")))
    for method in ("GetLogExport", "DownloadLogExport", "GetDebugArtifactStatus"):
        name = f"/cluster.cluster_mgmt_pb.csctl.CsCtlV1/{method}"
        assert admitted(gate, name, ada, request) is None
        with pytest.raises(ForbiddenError):
            admitted(gate, name, eve, request)


def test_who_looks_at_the_users_changes_nothing_and_who_may_not_is_written_down(database, clock):
    access = make_access(database, clock)
    gate = make_gate(access, database, clock)
    name = "/cluster.cluster_mgmt_pb.csadm.CsAdmV1/UserListBlocked"
    root = caller((("auth-uid", "0"), ("auth-gid", "0"), ("auth-username", "root")))
    assert admitted(gate, name, root) is None
    assert access.audit(AuditFilter()) == []
    eve = caller((("auth-uid", "1001"), ("auth-gid", "101"), ("auth-username", "eve")))
    with pytest.raises(ForbiddenError):
        admitted(gate, name, eve)
    (refused,) = access.audit(AuditFilter())
    assert (refused.user, refused.action) == ("eve", "manage-users")


def open_access_with_tokens(database, clock):
    return make_access(database, clock, needs_token=True)


@pytest.mark.parametrize("who", [OPERATOR, User(uid=0, gid=0, name="root")])
def test_without_tokens_no_account_locks_the_operator_or_root_out(database, clock, who):
    access = make_access(database, clock)
    access.create_account("other-name", uid=who.uid, gid=who.gid, role=UserRole.USER)
    access.block(who.uid)
    found = access.identify(who, "", OPERATOR.uid)
    assert found.role is UserRole.CLUSTER_ADMIN
    assert not found.is_blocked


def test_the_operator_is_whoever_runs_the_process(tmp_path, database, clock):
    access = open_access(tmp_path, database, clock, needs_token=False)
    assert access.operator.user.uid == os.getuid()
    assert access.identify(User(), "", os.getuid()).role is UserRole.CLUSTER_ADMIN


def test_wrong_tokens_are_counted_by_address_and_right_ones_pass_all_the_same(
    access, database, clock
):
    gate = make_gate(access, database, clock)
    ada = (("auth-uid", "1000"), ("auth-gid", "100"), ("auth-username", "ada"))
    right = caller((*ada, ("auth-token", access.tokens.mint("ada").text)))
    wrong = caller((*ada, ("auth-token", "guessed")))
    allowed = ALLOWANCES[Cost.WRONG_TOKEN]

    def call(who, host="10.0.0.1"):
        gate.enter_call(
            f"{SERVICE}/GetJob", who, Accepted(host=host, is_local=False)
        ).hold.release()

    for _ in range(allowed.burst):
        with pytest.raises(UnauthenticatedError):
            call(wrong)
    for _ in range(60):
        with pytest.raises(TooManyRequestsError, match=r"from 10\.0\.0\.1") as refused:
            call(wrong)
    assert 0 < refused.value.retry_seconds <= 1 / allowed.per_second
    call(right)
    with pytest.raises(UnauthenticatedError):
        call(wrong, "10.0.0.2")
    with pytest.raises(TooManyRequestsError):
        call(wrong, "::ffff:10.0.0.1")
    clock.advance(1 / allowed.per_second)
    with pytest.raises(UnauthenticatedError):
        call(wrong)
    with pytest.raises(TooManyRequestsError):
        call(wrong)


def test_wrong_tokens_and_nameless_streams_from_all_addresses_of_a_site_count_as_one(
    access, database, clock
):
    gate = make_gate(access, database, clock)
    guess = caller((("auth-token", "guessed"),))
    burst = ALLOWANCES[Cost.WRONG_TOKEN].burst

    def call(method, who, host):
        return gate.enter_call(f"{SERVICE}/{method}", who, Accepted(host=host, is_local=False))

    for number in range(burst):
        with pytest.raises(UnauthenticatedError):
            call("GetJob", guess, f"2001:db8::{number:x}")
    with pytest.raises(TooManyRequestsError, match="from 2001:db8::/64 do"):
        call("GetJob", guess, "2001:db8::ffff")
    with pytest.raises(UnauthenticatedError):
        call("GetJob", guess, "2001:db8:0:1::1")
    addresses = (f"2001:db8::1:{number:x}" for number in count())
    with pytest.raises(TooManyRequestsError, match="that prove nothing are open from there"):
        repeat(
            ALLOWANCES[Cost.CLIENT].strangers,
            lambda: call("HeartbeatV2", caller(()), next(addresses)),
        )


def test_a_token_lives_a_second_or_more(access):
    assert access.tokens.mint("ada", seconds=1).record.expires_at is not None
    for seconds in (0, -1):
        with pytest.raises(UserError, match=f"of {seconds} seconds would be born dead"):
            access.tokens.mint("ada", seconds=seconds)


@pytest.mark.parametrize(
    "request_of",
    [
        lambda job: csctl_pb2.GetRequest(type="job", name=job),
        lambda job: csctl_pb2.PatchRequest(type="job", name=job),
        lambda job: csctl_pb2.CancelJobRequest(job_id=job),
        lambda job: csctl_pb2.UpdateJobPriorityRequest(job_id=job, job_priority="p1"),
        lambda job: csctl_pb2.CreateLogExportRequest(name=job),
        lambda job: csctl_pb2.GetJobTopologyRequest(job_id=job),
        lambda job: queue_pb2.ExplainJobRequest(job=job),
        lambda job: queue_pb2.HoldJobRequest(job=job),
        lambda job: queue_pb2.RequeueJobRequest(job=job),
        lambda job: queue_pb2.ReleaseJobRequest(job=job),
        lambda job: events_pb2.ListJobEventsRequest(job=job),
        lambda job: events_pb2.ListRunSessionsRequest(job=job),
        lambda job: events_pb2.GetSessionProfileRequest(job=job),
        lambda job: logs_pb2.ListLogsRequest(job=job),
        lambda job: logs_pb2.StreamLogRequest(job=job),
    ],
)
def test_a_job_is_found_only_in_the_session_that_its_name_is_given_with(
    access, database, clock, request_of
):
    gate = make_gate(access, database, clock)
    State.over(database, clock).jobs.create(new_job("wsjob-a", session="team"))
    request = request_of("wsjob-a")
    gate.check_session("", request)
    gate.check_session("team", request)
    for other in ("nosuch", "job-operator", ".."):
        with pytest.raises(NotFoundError, match=f"no job wsjob-a in session {other}"):
            gate.check_session(other, request)
