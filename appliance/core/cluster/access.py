"""Who may do what: roles, actions and the rules between them. Pure.

One table of rules serves gRPC and REST. Every authenticated user may look; changing is for the
owner of an object, for administrators of its session and for administrators of the cluster. A
blocked user may still look, and end their own jobs or let them finish. Being a job's client
(`ATTACH_JOB`: learning its address, which lets one run code as its owner) is for its owner alone,
and for administrators of the cluster, who can create tokens of any user. A workflow is for the jobs
of the user who opened it, whatever roles others have.
"""

import datetime as dt
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from appliance.core.cluster.records import User
from appliance.core.errors import UserError
from appliance.core.quick_init import quick_init

ADMIN_PRIORITIES = 100
"""Priority values below this one (bucket P0) are for administrators of the cluster."""


class UserRole(StrEnum):
    """What a person may do beyond their own jobs."""

    USER = "user"
    SESSION_ADMIN = "session-admin"
    CLUSTER_ADMIN = "cluster-admin"


class Action(StrEnum):
    """Kinds of things that can be asked for."""

    READ = "read"
    READ_LOGS = "read-logs"
    ATTACH_JOB = "attach-job"
    SUBMIT = "submit"
    EDIT_JOB = "edit-job"
    RELEASE_JOB = "release-job"
    PRIORITISE_JOB = "prioritise-job"
    END_JOB = "end-job"
    PAUSE_SESSION = "pause-session"
    MANAGE_SESSIONS = "manage-sessions"
    MANAGE_SYSTEMS = "manage-systems"
    MANAGE_USERS = "manage-users"
    MANAGE_TOKENS = "manage-tokens"
    READ_AUDIT = "read-audit"

    @property
    def is_change(self) -> bool:
        """Whether it changes something, so that it is written to the audit trail."""
        return self not in _LOOKING


_LOOKING = frozenset({Action.READ, Action.READ_LOGS, Action.ATTACH_JOB, Action.READ_AUDIT})
_FOR_BLOCKED = frozenset({Action.READ, Action.END_JOB, Action.ATTACH_JOB})


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A user as stored.

    Attributes:
        name: Login name, unique.
        uid: Numeric user id, unique.
        gid: Numeric id of the primary group.
        role: What they may do.
        sessions: Sessions that they administer; of meaning for session administrators alone.
        created_at: When the account was made.
        blocked_at: Since when the user is blocked; None if not.
    """

    name: str
    uid: int
    gid: int
    role: UserRole
    sessions: tuple[str, ...]
    created_at: dt.datetime
    blocked_at: dt.datetime | None = None


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks, after it was found out.

    Attributes:
        user: The person.
        role: What they may do.
        sessions: Sessions that they administer.
        is_blocked: Whether they may only look and end.
        token: Id of the token that proved it; empty where none was asked for.
        acts_as: Who the audit trail says it was, where that is not known to be the person; else
            empty.
    """

    user: User
    role: UserRole = UserRole.USER
    sessions: tuple[str, ...] = ()
    is_blocked: bool = False
    token: str = ""
    acts_as: str = ""

    @property
    def is_admin(self) -> bool:
        """Whether they administer the cluster."""
        return self.role is UserRole.CLUSTER_ADMIN


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The object of a request.

    Attributes:
        kind: Kind of object, as in `job`.
        name: Its name; empty for all of the kind or one that is still to be made.
        owner: Who owns it; None if nobody does.
        session: The session it belongs to; empty if none.
        priority: The priority that is asked for; None if none is.
        held_by: Who holds the job back; empty if nobody does.
        workflow: The workflow that a new job is to belong to; empty if it names none.
        workflow_owner: Whose that workflow is; None if it names none.
    """

    kind: str
    name: str = ""
    owner: User | None = None
    session: str = ""
    priority: int | None = None
    held_by: str = ""
    workflow: str = ""
    workflow_owner: User | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


def name_of(user: User) -> str:
    """Return the name under which a user is shown to others."""
    return user.name or f"uid {user.uid}"


def refusal(principal: Principal, action: Action, target: Target) -> str | None:
    """Return why a principal may not do something, as a sentence; None if they may."""
    who = _describe(principal)
    if principal.is_blocked and action not in _FOR_BLOCKED:
        return f"{who} is blocked."
    if target.workflow_owner is not None and target.workflow_owner.uid != principal.user.uid:
        # Not even administrators: all jobs of a workflow are of one user, who may change them all.
        return f"{who} may not use workflow {target.workflow}: it is for who opened it."
    if principal.role is UserRole.CLUSTER_ADMIN:
        return None
    if target.priority is not None and target.priority < ADMIN_PRIORITIES:
        return (
            f"{who} may not use priority {target.priority}: values below {ADMIN_PRIORITIES} (P0) "
            "are for administrators of the cluster."
        )
    return _refusal_by_action(principal, action, target, who)


def _refusal_by_action(
    principal: Principal, action: Action, target: Target, who: str
) -> str | None:
    match action:
        case Action.READ | Action.SUBMIT:
            return None
        case Action.EDIT_JOB | Action.END_JOB | Action.MANAGE_TOKENS:
            is_allowed = _owns(principal, target) or _administers(principal, target)
            wanted = "its owner"
        case Action.ATTACH_JOB:
            is_allowed = _owns(principal, target)
            wanted = "its owner"
        case Action.RELEASE_JOB:
            is_own = target.held_by in ("", name_of(principal.user)) and _owns(principal, target)
            is_allowed = is_own or _administers(principal, target)
            wanted = target.held_by or "its owner"
        case Action.PRIORITISE_JOB | Action.READ_LOGS:
            is_allowed = (
                _owns(principal, target)
                or _shares_group(principal, target)
                or _administers(principal, target)
            )
            wanted = "its owner, members of its owner's group"
        case Action.PAUSE_SESSION:
            is_allowed = _administers(principal, target)
            wanted = "administrators of the session"
        case (
            Action.MANAGE_SESSIONS | Action.MANAGE_SYSTEMS | Action.MANAGE_USERS | Action.READ_AUDIT
        ):
            return f"{who} may not {action.value} ({target}): that is for cluster administrators."
        case _:
            assert_never(action)
    if is_allowed:
        return None
    return f"{who} may not {action.value} {target}: that is for {wanted} and administrators."


def _owns(principal: Principal, target: Target) -> bool:
    return target.owner is not None and target.owner.uid == principal.user.uid >= 0


def _shares_group(principal: Principal, target: Target) -> bool:
    return target.owner is not None and target.owner.gid == principal.user.gid >= 0


def _administers(principal: Principal, target: Target) -> bool:
    is_admin = principal.role is UserRole.SESSION_ADMIN
    return is_admin and bool(target.session) and target.session in principal.sessions


def _describe(principal: Principal) -> str:
    return f"User {principal.user.name or '?'} (uid {principal.user.uid})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """A token as stored, without its text.

    Attributes:
        id: Its id, which the text carries.
        user: Name of the user it stands for.
        label: What it is for, in the words of whoever minted it.
        parent: For a browser's login, the token that it came of; else empty.
        created_at: When it was minted.
        expires_at: When it ends by itself; None for never.
        revoked_at: When it was revoked; None if it was not.
    """

    id: str
    user: str
    label: str
    parent: str
    created_at: dt.datetime
    expires_at: dt.datetime | None
    revoked_at: dt.datetime | None

    @property
    def is_login(self) -> bool:
        """Whether a browser holds it as its cookie."""
        return bool(self.parent)

    def is_valid_at(self, now: dt.datetime) -> bool:
        """Whether the token is neither revoked nor past its end."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


_ACCOUNT_NAME = re.compile(r"[A-Za-z0-9_.+@$\\-]{1,64}")
"""Plain visible characters, as directory services have in names of users and computers."""


def check_account_name(name: str) -> None:
    """Raise `UserError` if an account may not have a name: it may look like another one."""
    if not _ACCOUNT_NAME.fullmatch(name):
        raise UserError(
            f"{name!r} is no name of an account.",
            hint="It has 1 to 64 letters of English, digits, and _ . - + @ $ \\.",
        )
