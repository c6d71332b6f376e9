"""The caller's identity: the metadata of every call, in the Python client's form."""

import getpass
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import UserError

_TOKEN_VARIABLE = "CSAUTH_TOKEN"

TOKEN_PROGRAM = Path("/usr/local/bin/get-cerebras-token")
"""What prints the user's token, as `Token=...`, on a user node of a cluster that wants one."""
_TOKEN_SECONDS = 30.0

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


def current_user(environ: Mapping[str, str], *, token_program: Path = TOKEN_PROGRAM) -> Identity:
    """Return the identity of the user who runs this process.

    Args:
        environ: The environment; a token in it comes before that of the user node.
        token_program: Prints the token of the user node, where there is such a program.

    Raises:
        UserError: The program fails.
    """
    return Identity(
        uid=os.getuid(),
        gid=os.getgid(),
        username=_username(),
        token=environ.get(_TOKEN_VARIABLE) or _node_token(token_program),
    )


def _node_token(program: Path) -> str:
    if not program.exists():
        return ""
    try:
        done = subprocess.run(
            [program], capture_output=True, text=True, timeout=_TOKEN_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise UserError(
            f"{program} gives no token: {said.strip()}.",
            hint=f"Ask the administrator for one and put it into {_TOKEN_VARIABLE}.",
        ) from error
    return done.stdout.strip().removeprefix("Token=")


def _username() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's uid without an entry in passwd
        return f"pid.{os.getpid()}"
