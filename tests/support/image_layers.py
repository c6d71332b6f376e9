"""What `docker save` writes, searched for secrets: every layer, and how each was made.

A file that a later step of a Dockerfile removes is still in the layer of the step that made it.
"""

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO

_MAX_BYTES = 1 << 20
"""Keys and tokens are small; libraries of a gigabyte need not be read."""
_BLOCK = 1 << 20
_MAGIC = slice(257, 262)
"""Where a tar archive says that it is one."""
_NAMES = re.compile(
    r"(\.netrc|\.pgpass|pgpass|\.pypirc|\.git-credentials|\.htpasswd|\.env|id_(rsa|dsa|ecdsa|ed25519)"
    r"|kubeconfig|password|database\.url|.*\.(token|key|p12|pfx|jks))"
)
_CONTENTS = {
    "a private key": re.compile(
        rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----\s+(?:[A-Za-z-]+: .*\s+)*[A-Za-z0-9+/=]{40}"
    ),
    "a signed token": re.compile(rb"\beyJ[\w-]{16,}\.eyJ[\w-]{16,}\.[\w-]{16,}"),
    "a token of a forge or a package index": re.compile(
        rb"\b(?:gh[pousr]_[A-Za-z0-9]{36}|glpat-[\w-]{20}|pypi-AgE[\w-]{50})"
    ),
    "a password in a URL": re.compile(rb"\b[a-z][a-z0-9+.]{1,20}://[^/\s:@'\"]+:[^/\s@'\"]+@"),
}
_PUBLISHED = re.compile(
    r"usr/(lib|share|include)/|var/lib/(dpkg|pam)/"
    r"|opt/[^/]+/lib/[^/]+/site-packages/(?!(appliance|csctl|protos|workers)/)"
)
"""Where others' packages lie: keys and passwords in their manuals and tests are nobody's."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that looks like a secret.

    Attributes:
        place: The layer, or the description, that it is in.
        path: The file; empty in a description.
        what: What it looks like.
    """

    place: str
    path: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Search:
    """What a search came by.

    Attributes:
        findings: What looks like a secret.
        paths: Every file of every layer.
    """

    findings: list[Finding]
    paths: set[str]


def secret_in(path: str, content: bytes) -> str:
    """Return what a file holds that looks like a secret; empty if nothing does.

    Args:
        path: Its path in the image, without the first slash; empty for a description of one.
        content: What is in it, or how it begins.
    """
    if not content or _PUBLISHED.match(path):
        return ""
    if _NAMES.fullmatch(PurePosixPath(path).name):
        return "a file for a secret, by its name"
    return next((what for what, pattern in _CONTENTS.items() if pattern.search(content)), "")


def search_images(saved: IO[bytes]) -> Search:
    """Search what `docker save` writes, as it comes.

    Args:
        saved: A stream of it, of one image or of several, in the old layout or in OCI's.
    """
    search = Search(findings=[], paths=set())
    with tarfile.open(fileobj=saved, mode="r|", bufsize=_BLOCK) as images:
        for member in images:
            file = images.extractfile(member) if member.isreg() else None
            if file is None:
                continue
            if _is_tar(file):
                _search_layer(member.name, file, search)
            elif what := secret_in("", file.read(_MAX_BYTES)):
                search.findings.append(Finding(place=member.name, path="", what=what))
    return search


def _is_tar(file: IO[bytes]) -> bool:
    """Whether a file that is read as a stream begins as an archive; nothing of it is consumed."""
    start: bytes = file.peek(512)  # type: ignore[attr-defined]
    return start[_MAGIC] == b"ustar"


def _search_layer(place: str, layer: IO[bytes], search: Search) -> None:
    for path, content in _files_of(layer):
        search.paths.add(path)
        if what := secret_in(path, content):
            search.findings.append(Finding(place=place, path=path, what=what))


def _files_of(layer: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield path and beginning of each regular file of a layer; no content of what is published."""
    with tarfile.open(fileobj=layer, mode="r|", bufsize=_BLOCK) as files:
        for member in files:
            path = member.name.removeprefix("./")
            file = files.extractfile(member) if member.isreg() else None
            if file is not None:
                yield path, b"" if _PUBLISHED.match(path) else file.read(_MAX_BYTES)
