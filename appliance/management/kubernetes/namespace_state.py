"""Whether jobs can be in the namespace of a session, and in what words they cannot."""

import http
from dataclasses import dataclass

from appliance.cluster.kubernetes.api import ApiError, ApiServer
from appliance.cluster.kubernetes.object_kinds import EVENT, JOB_LABEL, POD, WSJOB

_CREATE = (
    "Create the namespace and run helm upgrade; management goes on with it by itself. Or take the "
    "session out of `sessions`."
)
_GIVE_BACK = (
    "Run helm upgrade, which gives them back; management goes on with the namespace by itself. Or "
    "take the session out of `sessions`."
)
_BEING_DELETED = "is being terminated"
"""What the server says to whoever creates something in a namespace that is being deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """Why no job can be in a namespace now.

    Attributes:
        message: What is wrong, in one sentence.
        hint: What an administrator can do.
        has_rights: Whether management can still end what runs there.
        is_gone: Whether nothing of what ran there is left, or can be kept.
    """

    message: str
    hint: str
    has_rights: bool = False
    is_gone: bool = False

    def __str__(self) -> str:
        return f"{self.message} {self.hint}"


def find_fault(api: ApiServer, session: str) -> Unusable | None:
    """Return why no job can be in a session's namespace; None if jobs can.

    Nobody without a right in all namespaces may ask whether there is one of some name. But the
    server says so to whoever may create events, which the chart's ClusterRole lets management do.

    Args:
        api: That namespace.
        session: Whose jobs it is for.

    Raises:
        ApiError: The server does not answer, or not now.
    """
    name = f"Namespace {api.namespace} of session {session!r}"
    missing, refusal = _missing_right(api), _refusal_of_event(api)
    if refusal is not None and refusal.status == http.HTTPStatus.NOT_FOUND:
        return Unusable(message=f"{name} is gone.", hint=_CREATE, is_gone=True)
    if refusal is not None and _BEING_DELETED in refusal.reason:
        return Unusable(
            message=f"{name} is being deleted.",
            hint=f"When it is gone: {_CREATE[0].lower()}{_CREATE[1:]}",
            has_rights=missing is None,
            is_gone=missing is not None,
        )
    if missing is None:
        return None
    if refusal is not None and refusal.status == http.HTTPStatus.FORBIDDEN:
        return Unusable(
            message=f"{name} is gone, or management has no rights there: {missing.reason}.",
            hint=_CREATE,
        )
    return Unusable(
        message=f"Management has no rights in namespace {api.namespace} of session {session!r}: "
        f"{missing.reason}.",
        hint=_GIVE_BACK,
    )


def _missing_right(api: ApiServer) -> ApiError | None:
    """Return what the server says if management may not see pods and wsjobs; None if it may."""
    try:
        api.find(WSJOB, "none")
        api.list(POD, f"{JOB_LABEL}=none")
    except ApiError as error:
        if error.status == http.HTTPStatus.FORBIDDEN:
            return error
        raise
    return None


def _refusal_of_event(api: ApiServer) -> ApiError | None:
    """Return what the server says against a new event; None if it takes one. Creates none."""
    about = {"kind": WSJOB.name, "namespace": api.namespace, "name": "none"}
    event = {"metadata": {"generateName": "none-"}, "involvedObject": about, "reason": "DryRun"}
    try:
        api.create(EVENT, event, is_dry=True)
    except ApiError as error:
        if error.is_unavailable:
            raise
        return error
    return None
