"""The caller's identity, as the client's metadata carry it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from appliance.core.cluster.records import User
from appliance.core.integers import MAX_ID, MAX_POSITION, find_integer

_RELEASE = re.compile(r"[0-9A-Za-z.-]{1,32}", re.ASCII)
"""What a release may consist of: it is stored with the job and shown to others."""

OBJECT_SESSION_KEY = "wsc-session-of-object"
"""Metadata of csctl: the session in which the job of a call has been named."""

_SESSION_KEY = "resource-namespace"
"""Metadata of a client release's own csctl: the session that it works in, with every call."""

_DATED = re.compile(r"(\d+\.\d+\.\d+)-\d{12}-\d+-[0-9a-f]+")
"""What a release's own csctl calls its build: `2.9.0-202512242343-6-e2e12a41`."""

_NUM_KNOWN = 256
"""Metadata remembered: a client says the same with every call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls.

    Attributes:
        user: The person, as far as the metadata say.
        workflow: The workflow that the client works in; may be empty.
        client_release: Release of the client, as in `2.10.0`; empty if it says none.
        token: Signed token; may be empty.
        is_named: Whether there are metadata of a client at all: its streams carry none.
        session: The session (namespace) that it names; may be empty.
        num_previous_attempts: How often its gRPC has made the same call before, without an answer.
        session_of_object: The session in which a user of csctl has named a job; empty if in none.
        session_of_lists: The session whose jobs a release's own csctl lists; empty for all.
    """

    user: User
    workflow: str = ""
    client_release: str = ""
    token: str = ""
    is_named: bool = False
    session: str = ""
    num_previous_attempts: int = 0
    session_of_object: str = ""
    session_of_lists: str = ""


def caller(metadata: Iterable[tuple[str, str | bytes]] | None) -> Caller:
    """Return the caller that a call's metadata name; numbers that are none count as absent."""
    return _caller(tuple(metadata or ()))


@lru_cache(maxsize=_NUM_KNOWN)
def _caller(metadata: tuple[tuple[str, str | bytes], ...]) -> Caller:
    values = {key: value for key, value in metadata if isinstance(value, str)}
    user = User(
        uid=_number(values, "auth-uid", MAX_ID),
        gid=_number(values, "auth-gid", MAX_ID),
        name=values.get("auth-username", ""),
    )
    return Caller(
        user=user,
        workflow=values.get("workflow-id", ""),
        client_release=_release(values.get("client-build-version") or _build_of_csctl(values)),
        token=values.get("auth-token", ""),
        is_named="auth-uid" in values or "auth-token" in values,
        session=values.get("namespace", "") or _namespace(values.get("x-forwarded-host", "")),
        num_previous_attempts=max(_number(values, "grpc-previous-rpc-attempts", MAX_POSITION), 0),
        session_of_object=values.get(OBJECT_SESSION_KEY) or values.get(_SESSION_KEY, ""),
        session_of_lists=values.get(_SESSION_KEY, ""),
    )


def _release(build: str) -> str:
    """Return the release of a build, `2.9.0` of `2.9.0+e2e12a41a8`; empty for what is none."""
    release = build.partition("+")[0]
    if dated := _DATED.fullmatch(release):
        release = dated[1]
    return release if _RELEASE.fullmatch(release) else ""


def _build_of_csctl(values: Mapping[str, str]) -> str:
    """Return the build in the user agent of a release's own csctl, often the only place for it."""
    build, _, program = values.get("user-agent", "").partition(" ")
    return build if program.startswith("(csctl:") else ""


def _namespace(authority: str) -> str:
    """Return the session in front of an authority, `<session>.cluster-server...`."""
    name, _, rest = authority.partition(".")
    return name if rest.startswith("cluster-server") else ""


def _number(values: Mapping[str, str], name: str, most: int) -> int:
    found = find_integer(values.get(name, ""), most)
    return -1 if found is None else found
