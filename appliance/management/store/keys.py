"""The keys of an appliance: one file each, made at the first need and never changed.

A key that was cut short or overwritten would be a key that anybody can guess, or that fits nothing
which was signed before; so it is refused by name, and nobody signs with it.
"""

import secrets
from dataclasses import dataclass
from pathlib import Path

from appliance.files.kept_files import (
    create_file,
    damaged,
    find_unsealed,
    read_own,
    replace_file,
    sealed,
)

KEY_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """A key's file in the data directory.

    Attributes:
        name: Of the file.
        what: What the key does.
        cost: What becomes of what was made with it, once there is another.
    """

    name: str
    what: str
    cost: str


TOKENS = KeyFile(
    name="token.key",
    what="the key that signs users' tokens",
    cost="all tokens must be minted again",
)
DRIVER_TOKENS = KeyFile(
    name="driver-tokens.key",
    what="the key that signs the tokens of detached runs",
    cost="detached runs that have begun fail at their next call",
)
STREAMS = KeyFile(
    name="streams.key",
    what="the secret that the keys of jobs are made from",
    cost="jobs that run on several nodes fail",
)
NODES = KeyFile(
    name="nodes.key",
    what="the secret that join tokens are made from",
    cost="nodes need new join tokens",
)
KEYS = (TOKENS, DRIVER_TOKENS, STREAMS, NODES)


def ensure_key(data_dir: Path, key: KeyFile) -> bytes:
    """Return a key of `KEY_BYTES` bytes; make it if there is none.

    Raises:
        ClusterError: Its file is not what was written, or others could have written it.
        OSError: The disk refuses it.
    """
    path = data_dir / key.name
    if not path.exists() and not path.is_symlink():
        create_file(path, sealed(secrets.token_bytes(KEY_BYTES)))
    hint = f"Restore it from a backup, or remove it and start again: {key.cost}."
    text = read_own(path, what=key.what, hint=hint)
    found = find_unsealed(text)
    if found is None and _is_bare(text):  # of a version that wrote no seal
        replace_file(path, sealed(text))
        return text
    if found is None or len(found) != KEY_BYTES:
        raise damaged(path, key.what, f"its {len(text)} bytes are not a key and its digest", hint)
    return found


def _is_bare(text: bytes) -> bool:
    return len(text) == KEY_BYTES and len(set(text)) > 1
