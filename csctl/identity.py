"""Who is asking: the metadata that travels with every call, as the Python client sends it."""

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass

_TOKEN_VARIABLE = "CSAUTH_TOKEN"

# The version of the client contract that csctl speaks; the cluster compares it, not our own number.
_CLIENT_SEMANTIC_VERSION = "1.14.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The user of this process.

    Attributes:
        uid: Unix user id.
        gid: Unix group id.
        username: Login name; `pid.<n>` where the system knows none.
        token: Signed token; empty where the cluster asks for none.
    """

    uid: int
    gid: int
    username: str
    token: str

    def metadata(self, *, build_version: str) -> tuple[tuple[str, str], ...]:
        """Return the call metadata; no workflow: csctl's calls belong to none."""
        return (
            ("auth-uid", str(self.uid)),
            ("auth-gid", str(self.gid)),
            ("auth-username", self.username),
            ("auth-token", self.token),
            ("workflow-id", ""),
            ("client-build-version", build_version),
            ("client-semantic-version", _CLIENT_SEMANTIC_VERSION),
        )


def current_user(environ: Mapping[str, str]) -> Identity:
    """Return the identity of the user who runs this process."""
    return Identity(
        uid=os.getuid(),
        gid=os.getgid(),
        username=_username(),
        token=environ.get(_TOKEN_VARIABLE, ""),
    )


def _username() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's uid without an entry in passwd
        return f"pid.{os.getpid()}"
