"""Which account a person has whom an identity provider names, and what they may do. Pure.

The provider says who somebody is, in claims of a signed token; this module says what that means
here. Jobs run as the account's user id, so nobody becomes root or the operator this way, and an
account that exists keeps its user id whatever a claim says.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from appliance.core.cluster.access import Account, UserRole
from appliance.core.cluster.identity import ROOT
from appliance.core.cluster.records import User
from appliance.core.errors import ForbiddenError, UserError
from appliance.core.integers import MAX_ID, find_integer

Claims = Mapping[str, object]
"""What a token says of somebody, by name."""

USER_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$")
_RANKS = {UserRole.CLUSTER_ADMIN: 2, UserRole.SESSION_ADMIN: 1, UserRole.USER: 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRole:
    """What members of a group of the provider's may do.

    Attributes:
        group: Its name, as the claim has it.
        sessions: Sessions that they administer; of meaning for session administrators alone.
    """

    group: str
    role: UserRole
    sessions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.group:
            raise UserError("A role is given to a group without a name.")
        if bool(self.sessions) != (self.role is UserRole.SESSION_ADMIN):
            raise UserError(
                f"Group {self.group!r} has role {self.role} and {len(self.sessions)} sessions; "
                "session administrators have sessions, and nobody else has."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNames:
    """Which claims say what.

    Attributes:
        name: Login name. Choose one that people cannot change themselves.
        uid: Numeric user id, for who has no account yet.
        gid: Numeric id of the primary group, for who has no account yet.
        groups: Groups, a list of names or one name.
    """

    name: str = "preferred_username"
    uid: str = "uid"
    gid: str = "gid"
    groups: str = "groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRules:
    """What the claims of a login mean.

    Attributes:
        claims: Which claims say what.
        roles: What members of groups may do; the highest role of a person counts. With none,
            roles are those of the accounts, and no login changes them.
        allowed_groups: Groups of whom only members may log in; none lets everybody whom the
            provider knows.
        email_domain: Where names are mail addresses, the domain of those who may log in; their
            accounts are called without it. Other domains' names are none that an account can have.
    """

    claims: ClaimNames = ClaimNames()
    roles: tuple[GroupRole, ...] = ()
    allowed_groups: tuple[str, ...] = ()
    email_domain: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedAccount:
    """An account as a login wants it to be.

    Attributes:
        name: Login name.
        uid: User id.
        gid: Id of the primary group.
        role: What the person may do; None leaves an account's role, and makes a user of a new one.
        sessions: Sessions that they administer; of meaning with a role.
        is_new: Whether the account is to be made.
    """

    name: str
    uid: int
    gid: int
    role: UserRole | None
    sessions: tuple[str, ...]
    is_new: bool


def login_name(rules: LoginRules, claims: Claims) -> str:
    """Return the login name that claims give.

    Raises:
        ForbiddenError: They give none, none that an account can have, or a mail address that the
            provider has not verified.
    """
    claim = rules.claims.name
    name = claims.get(claim)
    if claim == "email" and claims.get("email_verified") is not True:
        raise ForbiddenError(f"The identity provider has not verified your address {name!r}.")
    if isinstance(name, str) and rules.email_domain:
        name = name.removesuffix(f"@{rules.email_domain}")
    if not isinstance(name, str) or not USER_NAME.fullmatch(name):
        raise ForbiddenError(
            f"The identity provider names you {name!r} (claim {claim!r}), which no account here "
            "can be called.",
            hint="Ask your administrator for another claim (`claims: {name: ...}` of --oidc).",
        )
    return name


def wanted_account(
    rules: LoginRules, claims: Claims, account: Account | None, *, operator: User
) -> WantedAccount:
    """Return the account that somebody logs in to.

    Args:
        rules: What claims mean.
        claims: What the provider says of them.
        account: The account of their login name; None if there is none.
        operator: Who runs the appliance.

    Raises:
        ForbiddenError: They may not log in, or there is no account and none can be made.
    """
    name, groups = login_name(rules, claims), groups_of(rules, claims)
    if rules.allowed_groups and not groups & set(rules.allowed_groups):
        raise ForbiddenError(
            f"User {name} is in none of the {len(rules.allowed_groups)} group(s) that may log in.",
            hint="Ask your administrator for a group of those.",
        )
    uid, gid = (account.uid, account.gid) if account else _ids(rules, claims, name)
    if uid in (ROOT, operator.uid):
        raise ForbiddenError(
            f"User {name} has uid {uid}, which runs the appliance or is root; no login of an "
            "identity provider becomes that.",
            hint="Use a token of `appliance token create`.",
        )
    role, sessions = _role(rules, groups)
    return WantedAccount(
        name=name, uid=uid, gid=gid, role=role, sessions=sessions, is_new=account is None
    )


def groups_of(rules: LoginRules, claims: Claims) -> frozenset[str]:
    """Return the groups that claims say."""
    said = claims.get(rules.claims.groups)
    if isinstance(said, str):
        return frozenset({said})
    if isinstance(said, Sequence):
        return frozenset(each for each in said if isinstance(each, str))
    return frozenset()


def _role(rules: LoginRules, groups: frozenset[str]) -> tuple[UserRole | None, tuple[str, ...]]:
    """Return the highest role of a person's groups, with all sessions that they give."""
    if not rules.roles:
        return None, ()
    given = [each for each in rules.roles if each.group in groups]
    role = max((each.role for each in given), key=_RANKS.__getitem__, default=UserRole.USER)
    sessions = {name for each in given for name in each.sessions if each.role is role}
    return role, tuple(sorted(sessions))


def _ids(rules: LoginRules, claims: Claims, name: str) -> tuple[int, int]:
    uid, gid = (_id(claims.get(claim)) for claim in (rules.claims.uid, rules.claims.gid))
    if uid is None or gid is None:
        raise ForbiddenError(
            f"User {name} has no account here, and the identity provider says no user id and group "
            f"id (claims {rules.claims.uid!r} and {rules.claims.gid!r}).",
            hint=f"An administrator makes one: `appliance user create {name} --uid UID --gid GID`.",
        )
    return uid, gid


def _id(value: object) -> int | None:
    if isinstance(value, str):
        return find_integer(value, MAX_ID)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MAX_ID else None
