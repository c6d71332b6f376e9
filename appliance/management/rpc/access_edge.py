"""Authentication, authorization and allowances of every call, by the one table of rules.

gRPC and REST both call this module twice for each call: `enter` before anything of its body is
read, with the proof from its metadata or headers; `decide` once the object of the call is known.
`core.access_rules` says which rule applies; a gRPC method without one is refused for every caller,
and a REST route without a rule cannot be defined.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from appliance.core.access_rules.methods import METHODS
from appliance.core.access_rules.model import Cost, Identity, Lookup, Rule
from appliance.core.cluster.access import Action, Principal, Target
from appliance.core.cluster.records import JobRecord, User
from appliance.core.errors import (
    InternalError,
    NotFoundError,
    TooManyRequestsError,
    UnauthenticatedError,
)
from appliance.core.ids import JOB_PREFIX, JobId, WorkflowId
from appliance.core.quick_init import quick_init
from appliance.management.access.allowances import Allowances, Hold
from appliance.management.access.authorization import (
    Access,
    Change,
    WriteBatched,
    job_target,
)
from appliance.management.access.workflow_owners import WorkflowOwners
from appliance.management.store.state import State
from appliance.storage.engine.database import InThread, ask
from appliance.wire.caller import Caller
from appliance.wire.connections.accepted import Accepted
from appliance.wire.requests.submissions import named_workflow, parse_priority, requested_priority

# `Any`: each method has message types of its own; a path has text alone.
_Message = Any
_Proved = TypeVar("_Proved")
_Answer = TypeVar("_Answer")
Field = Callable[[str], Any]
"""Returns the field of a message, or the parameter of a path, of a name."""


class _Exports(Protocol):
    """Knows of which job a log export is."""

    def job_of(self, export_id: str) -> JobId:
        """Return the job; raises `NotFoundError`."""
        ...


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """A call that was admitted before its message is read, so its object is not known yet.

    Attributes:
        rule: What holds for it.
        principal: Who calls; None if nobody has to be anybody.
        hold: What it occupies; released at its end.
        workflow: The workflow that its metadata name; may be empty.
    """

    rule: Rule
    principal: Principal | None
    hold: Hold
    workflow: str = ""


class Gate:
    """Lets calls in.

    Args:
        access: Knows callers, and says who may do what.
        state: Where the objects are that calls are about.
        write: Writes the records of changes, many at a time.
        allowances: How much a caller may occupy.
        exports: Of which job a log export is.
    """

    def __init__(
        self,
        access: Access,
        state: State,
        write: WriteBatched,
        allowances: Allowances,
        exports: _Exports,
    ) -> None:
        self._access = access
        self._state = state
        self._allowances = allowances
        self._places = _Places(
            access=access,
            state=state,
            exports=exports,
            workflow_owners=WorkflowOwners(state.workflows.find),
        )
        self.write = write

    def rule_of(self, method: str) -> Rule:
        """Return the rule of a gRPC method; raises `NotImplementedError` if it has none."""
        rule = METHODS.get(method)
        if rule is None:
            raise NotImplementedError(method)
        return rule

    def ask(
        self,
        question: Callable[..., _Answer],
        *arguments: object,
        in_thread: InThread[_Answer] = asyncio.to_thread,
    ) -> Coroutine[Any, Any, _Answer]:
        """Call one of the functions below, or what calls one, from the event loop."""
        return ask(self._state.database, question, *arguments, in_thread=in_thread)

    def enter_call(
        self,
        method: str,
        caller: Caller,
        connection: Accepted,
        likely: Principal | None = None,
    ) -> Entered:
        """Do what `enter` does for a gRPC call."""
        rule = self.rule_of(method)
        # Without tokens the kernel says whose the client's streams are, too.
        is_nobody = (
            rule.identity is Identity.OBJECT and self._access.needs_token and not caller.is_named
        )
        entered = self.enter(
            rule,
            caller.user,
            caller.token,
            connection=connection,
            is_nobody=is_nobody,
            likely=likely,
        )
        return replace(entered, workflow=caller.workflow) if caller.workflow else entered

    def enter(
        self,
        rule: Rule,
        claimed: User,
        token: str,
        *,
        connection: Accepted,
        is_nobody: bool = False,
        likely: Principal | None = None,
    ) -> Entered:
        """Let a call in, before anything of its body is read; may wait for the database.

        Args:
            rule: What holds for it.
            claimed: Who it says it is of; uid -1 if it does not say.
            token: The token it carries; may be empty.
            connection: What it came by; whoever need not say who they are is counted by where it
                comes from.
            is_nobody: Whether it carries nothing that says whose it is, and need not.
            likely: Who has proved themselves on its connection: it is counted as theirs, so that
                streams of clients do not compete with strangers'. None for nobody.

        Raises:
            UnauthenticatedError: It does not prove whose it is.
            ForbiddenError: Without tokens, this user of the machine is not served.
            TooManyRequestsError: It would occupy more than it may, or its token is wrong and too
                many wrong ones have come from there.
        """
        if rule.identity is Identity.NOTHING or is_nobody:
            hold = self._of_nobody(rule, connection.place, likely)
            return Entered(rule=rule, principal=None, hold=hold)
        proof = (claimed, token, connection.uid)
        principal = self.prove(connection, lambda: self._access.identify(*proof))
        hold = self._allowances.take(
            f"uid {principal.user.uid}", rule.cost, is_exempt=principal.is_admin
        )
        return Entered(rule=rule, principal=principal, hold=hold)

    def _of_nobody(self, rule: Rule, place: str, likely: Principal | None) -> Hold:
        """Count a call that does not say whose it is."""
        if likely is None:
            return self._allowances.take(f"at {place}", rule.cost, is_stranger=True)
        key = f"uid {likely.user.uid}"
        return self._allowances.take(key, rule.cost, is_exempt=likely.is_admin)

    def enter_again(self, entered: Entered, caller: Caller, connection: Accepted) -> Entered:
        """Look again who makes a call that goes on; raises as `enter` does."""
        if entered.principal is None:
            return entered
        proof = (caller.user, caller.token, connection.uid)
        principal = self.prove(connection, lambda: self._access.identify(*proof))
        return replace(entered, principal=principal)

    def prove(self, connection: Accepted, check: Callable[[], _Proved]) -> _Proved:
        """Check a proof of who calls; the one place where wrong ones are counted.

        A right proof is never refused for the wrong ones of others: behind a proxy, or on one
        machine, all callers have the same address. Guessing is hopeless, since tokens are signed
        with 256 bits; what is limited is the work and the noise that wrong ones make.

        Args:
            connection: What the proof came by.
            check: Returns what is proved.

        Raises:
            UnauthenticatedError: It proves nothing.
            TooManyRequestsError: Nor did too many others from there.
        """
        try:
            return check()
        except UnauthenticatedError:
            try:
                self._allowances.take(f"at {connection.place}", Cost.WRONG_TOKEN).release()
            except TooManyRequestsError as error:
                seconds = math.ceil(error.retry_seconds)
                raise TooManyRequestsError(
                    f"Too many calls from {connection.place} do not prove who makes them.",
                    hint=f"Mend CSAUTH_TOKEN, and try again in {seconds} second(s).",
                    retry_seconds=error.retry_seconds,
                ) from error
            raise

    def check_session(self, session: str, request: _Message) -> None:
        """Raise `NotFoundError` if the job of a call is of another session than it was named in.

        Args:
            session: That of the name; empty if the name is of any.
            request: The message, which has the job in one of three fields.
        """
        if not session:
            return
        for field in ("job_id", "job", "name"):
            name = getattr(request, field, "")
            if isinstance(name, str) and name.startswith(JOB_PREFIX):
                check_session_of(self._state.jobs.load(JobId(name)), session)

    def decide(
        self, entered: Entered, field: Field, *, entry_point: str, detail: str
    ) -> Change | None:
        """Decide whether a call is permitted on its object; may wait for the database.

        Args:
            entered: The call.
            field: Reads what it is about.
            entry_point: Through which entry point it came, for the audit trail.
            detail: What it does, for the audit trail.

        Returns:
            The change that the call makes, to be told of its end; None if it changes nothing.

        Raises:
            ForbiddenError: The caller may not do this.
            NotFoundError: It is about something that does not exist.
        """
        rule, principal = entered.rule, entered.principal
        if principal is None:
            return None
        if rule.is_decided_by_body:
            raise InternalError("A rule that is decided by the body was asked without it.")
        if rule.action is Action.READ:
            return None
        asker = _Asker(principal=principal, workflow=entered.workflow)
        target = _TARGETS[rule.lookup](self._places, rule, field, asker)
        if rule.lookup is Lookup.ACCOUNT and target.name == principal.user.name:
            return None  # one's own account
        if not rule.action.is_change:
            self._access.allow(principal, rule.action, target)
            return None
        change = self._access.begin(
            principal, rule.action, target, entry_point=entry_point, detail=detail
        )
        return None if rule.is_reading else change


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Where objects are looked up."""

    access: Access
    state: State
    exports: _Exports
    workflow_owners: WorkflowOwners


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asker:
    """Who calls, and the workflow that the call's metadata name."""

    principal: Principal
    workflow: str


_Find = Callable[[_Places, Rule, Field, _Asker], Target]


def _kind(_: _Places, rule: Rule, __: Field, ___: _Asker) -> Target:
    return Target(kind=rule.kind)


def _name(_: _Places, rule: Rule, field: Field, __: _Asker) -> Target:
    return Target(kind=rule.kind, name=str(field(rule.field)))


def _job(places: _Places, rule: Rule, field: Field, _: _Asker) -> Target:
    return job_target(places.state.jobs.load(JobId(field(rule.field))))


def _job_if_named(places: _Places, rule: Rule, field: Field, asker: _Asker) -> Target:
    """Return the job; a client whose job was refused at once ends one without a name."""
    if not field(rule.field):
        return Target(kind="job")
    return _job(places, rule, field, asker)


def _job_and_priority(places: _Places, rule: Rule, field: Field, _: _Asker) -> Target:
    job = places.state.jobs.load(JobId(field(rule.field)))
    return job_target(job, priority=parse_priority(field("job_priority")))


def _new_job(places: _Places, _: Rule, field: Field, asker: _Asker) -> Target:
    arguments = field("debug_args")
    workflow = WorkflowId(named_workflow(arguments.debug_mgr.workflow_id, asker.workflow))
    user = asker.principal.user
    return Target(
        kind="job",
        priority=requested_priority(arguments),
        workflow=workflow,
        workflow_owner=places.workflow_owners.owner_of(WorkflowId(workflow), user)
        if workflow
        else None,
    )


def _new_driver(_: _Places, __: Rule, field: Field, ___: _Asker) -> Target:
    text = field("priority")
    return Target(kind="job", priority=parse_priority(text) if text else None)


def _workflow(places: _Places, rule: Rule, field: Field, _: _Asker) -> Target:
    return _workflow_target(str(field(rule.field)), places.state)


def _workflow_of_job(places: _Places, rule: Rule, field: Field, _: _Asker) -> Target:
    job = places.state.jobs.load(JobId(field(rule.field)))
    return _workflow_target(job.workflow, places.state)


def _workflow_target(name: str, state: State) -> Target:
    found = state.workflows.find(WorkflowId(name))
    owner = found.user if found else None
    session = found.session if found else ""
    return Target(kind="workflow", name=name, owner=owner, session=session)


def lease_target(name: str, state: State) -> Target:
    """Return the job or workflow whose lease a heartbeat renews."""
    job = state.jobs.find(JobId(name))
    return job_target(job) if job else _workflow_target(name, state)


def _lease(places: _Places, _: Rule, field: Field, __: _Asker) -> Target:
    return lease_target(str(field("lease_id") or field("job_id")), places.state)


def _session(_: _Places, rule: Rule, field: Field, __: _Asker) -> Target:
    name = str(field(rule.field))
    return Target(kind="session", name=name, session=name)


def _export(places: _Places, rule: Rule, field: Field, _: _Asker) -> Target:
    job = places.exports.job_of(str(field(rule.field)))
    record = places.state.jobs.find(job)
    # Of a job that is forgotten nobody is the owner any more: administrators may look.
    return job_target(record) if record else Target(kind="job", name=job)


def _token(places: _Places, rule: Rule, field: Field, asker: _Asker) -> Target:
    name = str(field(rule.field))
    record = places.access.tokens.find(name)
    if record is None:
        raise NotFoundError(f"There is no token {name!r}.")
    return Target(kind="token", name=name, owner=places.access.owner(record.user, asker.principal))


def _by_body(_: _Places, rule: Rule, __: Field, ___: _Asker) -> Target:
    raise InternalError(f"What {rule.kind} a call is about stands in its body.")


_TARGETS: Mapping[Lookup, _Find] = {
    Lookup.KIND: _kind,
    Lookup.NAME: _name,
    Lookup.JOB: _job,
    Lookup.JOB_IF_NAMED: _job_if_named,
    Lookup.JOB_AND_PRIORITY: _job_and_priority,
    Lookup.NEW_JOB: _new_job,
    Lookup.NEW_DRIVER: _new_driver,
    Lookup.WORKFLOW: _workflow,
    Lookup.WORKFLOW_OF_JOB: _workflow_of_job,
    Lookup.LEASE: _lease,
    Lookup.SESSION: _session,
    Lookup.EXPORT: _export,
    Lookup.TOKEN: _token,
    Lookup.ACCOUNT: _name,
    Lookup.BODY: _by_body,
}


def check_session_of(job: JobRecord, session: str) -> None:
    """Raise `NotFoundError` if a job is of another session."""
    if job.session != session:
        raise NotFoundError(
            f"There is no job {job.id} in session {session}.",
            hint="`csctl get jobs -n SESSION -a` lists a session's.",
        )


def name_of(response: _Message) -> str:
    """Return the name of the object that a request created; empty if the response has none."""
    for field in ("job_id", "workflow_id", "job"):
        if name := getattr(response, field, ""):
            return str(name)
    return ""
