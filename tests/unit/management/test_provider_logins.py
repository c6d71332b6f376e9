"""What the claims of an identity provider make of somebody."""

import datetime as dt

import pytest

from appliance.core.cluster.access import Account, UserRole
from appliance.core.cluster.records import User
from appliance.core.errors import ForbiddenError, UserError
from appliance.management.access.provider_logins import (
    ClaimNames,
    GroupRole,
    LoginRules,
    login_name,
    wanted_account,
)

OPERATOR = User(uid=500, gid=500, name="operator")
CLAIMS = {"preferred_username": "ada", "uid": 1000, "gid": "100", "groups": ["a", "b"]}
ROLES = (
    GroupRole(group="a", role=UserRole.SESSION_ADMIN, sessions=("x",)),
    GroupRole(group="b", role=UserRole.SESSION_ADMIN, sessions=("y",)),
    GroupRole(group="c", role=UserRole.CLUSTER_ADMIN),
)


def account(**fields) -> Account:
    values = {
        "name": "ada",
        "uid": 1000,
        "gid": 100,
        "role": UserRole.USER,
        "sessions": (),
        "created_at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    }
    return Account(**{**values, **fields})


def wanted(claims=CLAIMS, known=None, **rules):
    return wanted_account(LoginRules(**rules), claims, known, operator=OPERATOR)


def test_who_has_no_account_gets_one_with_the_ids_of_the_claims() -> None:
    found = wanted()
    assert (found.name, found.uid, found.gid, found.is_new) == ("ada", 1000, 100, True)
    assert found.role is None


def test_an_account_keeps_its_ids_whatever_a_claim_says() -> None:
    found = wanted({**CLAIMS, "uid": 1}, account())
    assert (found.uid, found.gid, found.is_new, found.role) == (1000, 100, False, None)


@pytest.mark.parametrize(
    ("groups", "role", "sessions"),
    [
        (["a", "b"], UserRole.SESSION_ADMIN, ("x", "y")),
        (["a", "c"], UserRole.CLUSTER_ADMIN, ()),
        ("b", UserRole.SESSION_ADMIN, ("y",)),
        ([], UserRole.USER, ()),
        (7, UserRole.USER, ()),
    ],
)
def test_the_highest_role_of_a_persons_groups_counts(groups, role, sessions) -> None:
    admin = account(role=UserRole.CLUSTER_ADMIN)
    found = wanted({**CLAIMS, "groups": groups}, admin, roles=ROLES)
    assert (found.role, found.sessions) == (role, sessions)


@pytest.mark.parametrize("uid", [0, 500])
def test_nobody_becomes_root_or_the_operator(uid) -> None:
    with pytest.raises(ForbiddenError, match="no login of an identity provider becomes that"):
        wanted({**CLAIMS, "uid": uid})
    with pytest.raises(ForbiddenError, match=f"uid {uid}"):
        wanted(known=account(uid=uid))


@pytest.mark.parametrize("uid", [None, True, -1, "x", 1.5, 1 << 32, "٣"])
def test_what_is_no_user_id_makes_no_account(uid) -> None:
    with pytest.raises(ForbiddenError, match="says no user id and group id"):
        wanted({**CLAIMS, "uid": uid})


def test_only_members_of_allowed_groups_log_in() -> None:
    assert wanted(allowed_groups=("b",)).name == "ada"
    with pytest.raises(ForbiddenError, match="none of the 1 group"):
        wanted(allowed_groups=("z",))


@pytest.mark.parametrize("name", [None, "", "a b", "../x", "ada@evil.example", "a" * 64, 5])
def test_what_no_account_can_be_called_is_refused(name) -> None:
    with pytest.raises(ForbiddenError, match="no account here can be called"):
        login_name(LoginRules(), {"preferred_username": name})


@pytest.mark.parametrize(
    ("domain", "name"), [("", "ada@"), ("example.org", None), ("example.org", 5)]
)
def test_a_domain_is_taken_off_texts_alone_and_only_where_one_is_given(domain, name) -> None:
    with pytest.raises(ForbiddenError, match="no account here can be called"):
        login_name(LoginRules(email_domain=domain), {"preferred_username": name})


def test_mail_addresses_are_names_of_one_domain_if_they_are_verified() -> None:
    rules = LoginRules(claims=ClaimNames(name="email"), email_domain="example.org")
    assert login_name(rules, {"email": "ada@example.org", "email_verified": True}) == "ada"
    with pytest.raises(ForbiddenError, match="has not verified"):
        login_name(rules, {"email": "ada@example.org"})
    with pytest.raises(ForbiddenError, match="no account here"):
        login_name(rules, {"email": "ada@example.org.evil", "email_verified": True})


def test_roles_and_sessions_have_to_fit() -> None:
    with pytest.raises(UserError, match="session administrators have sessions"):
        GroupRole(group="a", role=UserRole.SESSION_ADMIN)
    with pytest.raises(UserError, match="session administrators have sessions"):
        GroupRole(group="a", role=UserRole.USER, sessions=("x",))
