"""What a rule is: who may use an entry point, which check decides, and what one use may cost.

Pure data. Management and REST look rules up here and apply them; whatever has no rule is refused.
"""

from dataclasses import dataclass
from enum import StrEnum

from appliance.core.cluster.access import Action

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


class Identity(StrEnum):
    """What a caller has to prove before anything is read of what they send."""

    NOTHING = "nothing"
    """Answered to everybody: says how to authenticate, or that the process lives."""
    OBJECT = "the id of a job or workflow"
    """Of a client's stream, which carries no credentials: with tokens it proves itself by a call on
    the same connection; without tokens the kernel says whose it is (docs/security.md)."""
    CALLER = "who they are"
    """A token; without tokens, who the kernel says they are."""


class Cost(StrEnum):
    """What a call occupies while it lasts; `ALLOWANCES` says how much of it one caller may have."""

    LIGHT = "light"
    """An answer from memory, or of some rows of the database."""
    SUBMIT = "submit"
    """A new job or workflow: rows that stay."""
    EXPORT = "export"
    """Reads or packs files of a job, up to gigabytes, or reads the rows of very many jobs."""
    FOLLOW = "follow"
    """Stays open for a dashboard or a terminal."""
    CLIENT = "client stream"
    """Stays open for as long as a client's job lives."""
    HEAVY = "heavy"
    """Seconds of processor time: a process of its own, of few, with a memory limit."""
    LOGIN = "login elsewhere"
    """Waits for an identity provider, which is on another machine."""
    WRONG_TOKEN = "wrong token"
    """Not a call but a proof that failed; counted by the address that it came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How much of one cost may be used at a time.

    Attributes:
        per_caller: Calls that one caller may have open; administrators of the cluster are not held
            to it.
        total: Calls that all callers together may have open.
        strangers: The part of them that callers may have who have proved nothing.
        per_second: Calls that one caller may begin in a second, over a longer time.
        burst: Calls that one caller may begin at once after a pause.
    """

    per_caller: int
    total: int
    strangers: int
    per_second: float
    burst: int


ALLOWANCES: dict[Cost, Allowance] = {
    Cost.LIGHT: Allowance(
        per_caller=256, total=2048, strangers=1024, per_second=2000, burst=10_000
    ),
    Cost.SUBMIT: Allowance(
        per_caller=256, total=2048, strangers=1024, per_second=1000, burst=20_000
    ),
    Cost.EXPORT: Allowance(per_caller=8, total=64, strangers=32, per_second=20, burst=200),
    Cost.FOLLOW: Allowance(per_caller=32, total=512, strangers=256, per_second=10, burst=100),
    Cost.CLIENT: Allowance(
        per_caller=4096, total=16_384, strangers=8192, per_second=1000, burst=20_000
    ),
    Cost.HEAVY: Allowance(per_caller=2, total=8, strangers=4, per_second=1, burst=10),
    Cost.LOGIN: Allowance(per_caller=8, total=8, strangers=8, per_second=5, burst=100),
    Cost.WRONG_TOKEN: Allowance(
        per_caller=256, total=2048, strangers=1024, per_second=0.2, burst=20
    ),
}


class Lookup(StrEnum):
    """How the object that a call is about is found, from the field that the rule names."""

    KIND = "all of the kind"
    NAME = "by name"
    JOB = "a job"
    JOB_IF_NAMED = "a job, if one is named"
    JOB_AND_PRIORITY = "a job and the priority asked for"
    NEW_JOB = "a new job of the priority asked for, in the workflow that it names"
    NEW_DRIVER = "a new driver of the priority asked for"
    WORKFLOW = "a workflow"
    WORKFLOW_OF_JOB = "the workflow of a job"
    LEASE = "the job or workflow of a lease"
    SESSION = "a session"
    EXPORT = "the job of a log export"
    TOKEN = "the user of a token"
    ACCOUNT = "an account"
    BODY = "named by the body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a gRPC method or a REST route asks for.

    Attributes:
        action: What the caller has to be allowed to do; `core.access.refusal` decides.
        kind: Kind of the object that it is done to.
        lookup: How the object is found.
        field: Field of the message, or parameter of the path, that names the object.
        or_actions: Other actions that the body can make of it; the handler then asks for one of
            these, and what it does not ask for is refused.
        identity: What is proved first.
        cost: What the call occupies.
        max_bytes: Size of one message or body.
        is_reading: Whether it changes nothing, though its action is one that mostly does: the audit
            trail then has only those who were refused.
    """

    action: Action
    kind: str = "cluster"
    lookup: Lookup = Lookup.KIND
    field: str = ""
    or_actions: tuple[Action, ...] = ()
    identity: Identity = Identity.CALLER
    cost: Cost = Cost.LIGHT
    max_bytes: int = MIB
    is_reading: bool = False

    @property
    def is_decided_by_body(self) -> bool:
        """Whether the handler has to ask, since the body says what is to be done."""
        return self.lookup is Lookup.BODY
