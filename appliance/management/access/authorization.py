"""Authentication, authorization and audit for every entry point.

gRPC and REST both use this module. Without tokens (on loopback alone) the kernel identifies the
caller (`core/cluster/identity.py`); the user that a call names counts only if the operator or root
names it. With tokens a call carries one that we signed, and everything else that it says of its
user must agree with it. The identity found here is the user of whatever the call creates: nothing
reads the call's own claims again (`asking`).
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from appliance.core.changed_values import changed
from appliance.core.clock import Clock
from appliance.core.cluster.access import (
    Account,
    Action,
    Principal,
    Target,
    TokenRecord,
    UserRole,
    refusal,
)
from appliance.core.cluster.identity import ROOT, user_of_peer
from appliance.core.cluster.records import JobRecord, User
from appliance.core.errors import (
    ForbiddenError,
    InternalError,
    UnauthenticatedError,
    WscError,
)
from appliance.core.queries.audit_trail import NO_UID, SOMEBODY, AuditFilter, AuditRecord
from appliance.management.access.known_accounts import (
    KnownAccounts,
    check_uid,
    find_account,
    this_user,
)
from appliance.management.access.tokens import Tokens
from appliance.management.changes.watch import Awaited
from appliance.management.store.keys import TOKENS, ensure_key
from appliance.storage.engine.database import Database
from appliance.storage.users.access import AccessRepository

logger = logging.getLogger(__name__)

WriteBatched = Callable[[Callable[[], None], Awaited], None]
"""Takes something that writes to the database, and an answer to resolve after the commit."""


_NAMELESS = "pid."
"""How a client calls a user whose uid has no name on its machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """How strict the appliance is.

    Attributes:
        needs_token: Whether every call must carry a token.
        operator: Who runs the appliance, and so administers the cluster, beside root.
        serves_all: Whether, without tokens, other users of this machine are served.
        is_vouched_for: Whether somebody else may authenticate users who have no account here, as
            Kubernetes does.
    """

    needs_token: bool
    operator: User
    serves_all: bool
    is_vouched_for: bool

    @property
    def needs_account(self) -> bool:
        """Whether a user has to have an account, also where no token of their own proves them."""
        return self.needs_token and not self.is_vouched_for


class Access:
    """Identifies callers, authorizes them, and records their changes.

    Args:
        repository: Where accounts and the audit trail are kept.
        tokens: Checks tokens.
        options: See `AccessOptions`.
        clock: Gives the times of audit records.
    """

    def __init__(
        self, repository: AccessRepository, tokens: Tokens, options: AccessOptions, clock: Clock
    ) -> None:
        self._repository = repository
        self._options = options
        self._clock = clock
        self._known = KnownAccounts(repository, clock)
        self._delegates: list[Callable[[str], User | None]] = []
        self._listeners: list[Callable[[str, str], None]] = []
        self.tokens = tokens

    @property
    def needs_token(self) -> bool:
        """Whether every call must carry a token."""
        return self._options.needs_token

    def accept(self, delegate: Callable[[str], User | None]) -> None:
        """Accept tokens of another kind, such as those that a detached run's script carries.

        Args:
            delegate: Returns in whose name a token acts; None if it is not of that kind.
        """
        self._delegates.append(delegate)

    def on_change(self, listener: Callable[[str, str], None]) -> None:
        """Call a listener with the kind and name of each changed object, in any thread."""
        self._listeners.append(listener)

    @property
    def operator(self) -> Principal:
        """Who runs the appliance."""
        return Principal(user=self._options.operator, role=UserRole.CLUSTER_ADMIN)

    def identify(self, claimed: User, token: str, peer_uid: int | None) -> Principal:
        """Return who calls.

        Args:
            claimed: Who the call says it is of; uid -1 if it does not say.
            token: The token it carries; may be empty.
            peer_uid: Whose connection it came by, which counts where there is no token, and says
                whether a login is that of somebody else's browser; None if it is nobody's.

        Raises:
            UnauthenticatedError: A token is needed and lacking, or not valid, or stands for
                somebody else; or, without tokens, it cannot be known who calls.
            ForbiddenError: Without tokens, this user of the machine is not served.
        """
        if token:
            return self._delegated(claimed, token) or self._by_token(
                claimed, self.tokens.check(token, peer_uid)
            )
        if self._options.needs_token:
            raise UnauthenticatedError(
                "This appliance wants a token with every call.",
                hint="`appliance token create` mints one; put it into CSAUTH_TOKEN.",
            )
        options = self._options
        user = user_of_peer(
            peer_uid,
            claimed,
            operator=options.operator,
            serves_all=options.serves_all,
            account_of=find_account,
        )
        return self._known_as(user, is_of_machine=True)

    def vouched(self, user: User) -> Principal:
        """Return the caller where another party has authenticated it, such as Kubernetes."""
        return self._known_as(user)

    def somebody_for(self, user: User) -> Principal:
        """Return the caller where another party lets somebody whom it does not name act for a user.

        They may do what the user may, and the audit trail does not say that it was the user.
        """
        return replace(self._known_as(user), acts_as=SOMEBODY)

    def still(self, principal: Principal) -> Principal | None:
        """Return what a caller who was identified before may do now; None if the proof has lapsed.

        Whoever keeps a caller asks this before each use: a token may have been revoked since, and a
        role taken away.
        """
        if principal.token:
            try:
                return self._by_token(principal.user, self.tokens.check_again(principal.token))
            except UnauthenticatedError:
                return None
        if self._options.needs_account and not self._known.has(principal.user):
            return None
        found = self._known_as(principal.user, is_of_machine=not self._options.needs_token)
        return changed(found, acts_as=principal.acts_as) if principal.acts_as else found

    def allow(self, principal: Principal, action: Action, target: Target) -> None:
        """Check that a caller may do something, or raise `ForbiddenError`."""
        if (why := refusal(principal, action, target)) is not None:
            raise ForbiddenError(why)

    def begin(
        self,
        principal: Principal,
        action: Action,
        target: Target,
        *,
        entry_point: str,
        detail: str = "",
    ) -> "Change":
        """Check and begin a change; the caller reports its end to the returned object.

        Raises:
            ForbiddenError: They may not; this is written down.
        """
        record = AuditRecord(
            at=self._clock.now(),
            user=principal.acts_as or principal.user.name,
            uid=NO_UID if principal.acts_as else principal.user.uid,
            entry_point=entry_point,
            action=action.value,
            kind=target.kind,
            name=target.name,
            detail=detail,
        )
        change = Change(self._repository, self._clock, record, self._listeners)
        try:
            self.allow(principal, action, target)
        except ForbiddenError as error:
            change.failed(error)
            raise
        return change

    @contextmanager
    def change(
        self,
        principal: Principal,
        action: Action,
        target: Target,
        *,
        entry_point: str,
        detail: str = "",
    ) -> Iterator["Change"]:
        """Check a change that is made inside the block, and write its audit record.

        A refusal and a failure are written down too.

        Raises:
            ForbiddenError: They may not.
        """
        change = self.begin(principal, action, target, entry_point=entry_point, detail=detail)
        try:
            yield change
        except WscError as error:
            change.failed(error)
            raise
        change.done()

    def audit(self, wanted: AuditFilter) -> Sequence[AuditRecord]:
        """Return records of changes, newest first."""
        return self._repository.audit(wanted)

    def accounts(self) -> Sequence[Account]:
        """Return all accounts, by name."""
        return self._repository.accounts()

    def owner(self, name: str, principal: Principal) -> User | None:
        """Return the user of a name as an owner; an anonymous one if the name is unknown."""
        if name == principal.user.name:
            return principal.user
        for account in self.accounts():
            if account.name == name:
                return User(uid=account.uid, gid=account.gid, name=account.name)
        return None

    def load_account(self, name: str) -> Account:
        """Return an account; raises `NotFoundError`."""
        return self._repository.load_account(name)

    def create_account(
        self, name: str, *, uid: int, gid: int, role: UserRole, sessions: Sequence[str] = ()
    ) -> Account:
        """Make an account; raises as the repository does."""
        account = self._repository.create_account(
            name, uid=uid, gid=gid, role=role, sessions=sessions
        )
        self._known.forget()
        return account

    def change_account(
        self, name: str, *, role: UserRole | None = None, sessions: Sequence[str] | None = None
    ) -> Account:
        """Change what a user may do; raises `NotFoundError`."""
        account = self._repository.change_account(name, role=role, sessions=sessions)
        self._known.forget()
        return account

    def delete_account(self, name: str) -> None:
        """Forget a user and their tokens; raises `NotFoundError`."""
        self._repository.delete_account(name)
        self._known.forget()

    def block(self, uid: int) -> Account:
        """Block a user, known or not: they may only read, and cancel their own jobs."""
        check_uid(uid)
        if uid not in {account.uid for account in self._repository.accounts()}:
            name = f"uid-{uid}"
            self._repository.create_account(name, uid=uid, gid=-1, role=UserRole.USER)
        account = self._repository.set_blocked(uid, is_blocked=True)
        self._known.forget()
        return account

    def unblock(self, uid: int) -> Account:
        """Lift a block; raises `NotFoundError` for a user who is not known."""
        check_uid(uid)
        account = self._repository.set_blocked(uid, is_blocked=False)
        self._known.forget()
        return account

    def blocked(self) -> Sequence[Account]:
        """Return the accounts that are blocked, by name."""
        return [account for account in self.accounts() if account.blocked_at is not None]

    def _by_token(self, claimed: User, token: TokenRecord) -> Principal:
        account = self._known.by_name(token.user)
        if account is None:
            raise UnauthenticatedError(f"Token {token.id} is of a user who is gone.")
        user = User(uid=account.uid, gid=account.gid, name=account.name)
        _agree(claimed, user)
        return _principal(user, account, token=token.id)

    def _delegated(self, claimed: User, token: str) -> Principal | None:
        for delegate in self._delegates:
            if (user := delegate(token)) is not None:
                _agree(claimed, user)
                if self._options.needs_account and not self._known.has(user):
                    raise UnauthenticatedError(
                        f"The token is of a run of user {user.name!r}, who is gone."
                    )
                return self._known_as(user)
        return None

    def _known_as(self, user: User, *, is_of_machine: bool = False) -> Principal:
        is_operator = user.uid in (ROOT, self._options.operator.uid)
        # Of the machine they own the data: an account that is made or blocked locks neither out.
        account = None if is_of_machine and is_operator else self._known.by_uid(user.uid)
        if account is not None:
            return _principal(user, account)
        role = UserRole.CLUSTER_ADMIN if is_operator else UserRole.USER
        return Principal(user=user, role=role)


_asking: ContextVar[Principal | None] = ContextVar("asking", default=None)
"""Who makes this call."""


def act_as(principal: Principal | None) -> None:
    """Set the caller that `asking` returns, for this call and tasks that copy its context.

    Nothing takes it back: every call has a context of its own.
    """
    _asking.set(principal)


def asking() -> User:
    """Return the user whose call this is, as `Access` found out."""
    principal = asking_principal()
    if principal is None:
        raise InternalError("A call whose user nobody has found out asks for that user.")
    return principal.user


def asking_principal() -> Principal | None:
    """Return whose call this is; None for one that is answered to anybody."""
    return _asking.get()


_present: ContextVar["Change | None"] = ContextVar("change", default=None)
"""The change that this call makes."""


def write_down(name: str) -> None:
    """Write down the change that this call makes together with what it makes, if it makes one.

    Called within a batch; whoever tells the change of its end has nothing more to write.

    Args:
        name: What the new object is called.
    """
    if (change := _present.get()) is not None:
        change.write_with(name)


class Change:
    """A change in progress; it writes its audit record when it ends.

    Args:
        repository: Keeps the audit trail.
        clock: Gives the time of the end.
        record: What is written, but for the end.
        listeners: Told of the kind and name of what was changed.
    """

    def __init__(
        self,
        repository: AccessRepository,
        clock: Clock,
        record: AuditRecord,
        listeners: Sequence[Callable[[str, str], None]] = (),
    ) -> None:
        self._repository, self._clock, self._record = repository, clock, record
        self._listeners = listeners
        self._is_written = False

    @contextmanager
    def present(self) -> Iterator[None]:
        """Let `write_down` write this change in the block, and in what takes its context along."""
        token = _present.set(self)
        try:
            yield
        finally:
            _present.reset(token)

    def describe(self, detail: str) -> None:
        """Set the description of the change, where it is known only now."""
        self._record = replace(self._record, detail=detail)

    def write_with(self, name: str) -> None:
        """Write down, within a batch, that the change is made; see `write_down`."""
        self._write(name=self._record.name or name, problem="")
        self._is_written = True

    def done(self, name: str = "") -> None:
        """Write down that the change was made; `name` is what a new object is called."""
        name = self._record.name or name
        if not self._is_written:
            self._write(name=name, problem="")
        for listener in self._listeners:
            listener(self._record.kind, name)

    def failed(self, error: WscError) -> None:
        """Write down that the change was refused or failed."""
        self._write(name=self._record.name, problem=error.message)

    async def done_with(self, write: WriteBatched, name: str = "") -> None:
        """Do the same as `done`, but pass the record to a writer that batches."""
        name = self._record.name or name
        if not self._is_written:
            record = changed(self._record, at=self._clock.now(), name=name)
            committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            write(partial(self._repository.write_audit, record), committed)
            await committed
        for listener in self._listeners:
            listener(self._record.kind, name)

    def _write(self, *, name: str, problem: str) -> None:
        record = changed(self._record, at=self._clock.now(), name=name, problem=problem)
        self._repository.write_audit(record)


def _agree(claimed: User, proved: User) -> None:
    has_name = not claimed.name.startswith(_NAMELESS)
    is_same = (claimed.uid, claimed.gid) == (proved.uid, proved.gid)
    if claimed.uid >= 0 and not (is_same and (claimed.name == proved.name or not has_name)):
        raise UnauthenticatedError(
            f"The call says user {claimed.name!r} (uid {claimed.uid}, gid {claimed.gid}), its "
            f"token says {proved.name!r} (uid {proved.uid}, gid {proved.gid}).",
            hint="Use a token of your own, minted with your uid and gid.",
        )


def open_access(
    data_dir: Path,
    database: Database,
    clock: Clock,
    *,
    needs_token: bool,
    serves_all: bool = False,
    is_vouched_for: bool = False,
) -> Access:
    """Return the access to the appliance of a data directory, whose operator runs this process."""
    repository = AccessRepository(database, clock)
    tokens = Tokens(repository, ensure_key(data_dir, TOKENS), clock)
    strictness = {"serves_all": serves_all, "is_vouched_for": is_vouched_for}
    options = AccessOptions(needs_token=needs_token, operator=this_user(), **strictness)
    return Access(repository, tokens, options, clock)


def job_target(job: JobRecord, *, priority: int | None = None) -> Target:
    """Return a job as the rules see it."""
    return Target(
        kind="job",
        name=job.id,
        owner=job.user,
        session=job.session,
        priority=priority,
        held_by=job.held_by,
    )


def _principal(user: User, account: Account, *, token: str = "") -> Principal:
    return Principal(
        user=user,
        role=account.role,
        sessions=account.sessions,
        is_blocked=account.blocked_at is not None,
        token=token,
    )
