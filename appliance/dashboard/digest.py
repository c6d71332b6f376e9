"""Ties the built pages to their sources: `python -m appliance.dashboard.digest` after a build.

The digest is kept beside the built files; a test compares it with the sources, so that nobody
changes a page and forgets to build it.
"""

import hashlib
from pathlib import Path

from appliance.dashboard.pages import STATIC

WEB = Path(__file__).parent / "web"
DIGEST = STATIC / "SOURCES.sha256"
_FILES = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")


def source_digest() -> str:
    """Return the SHA-256 of all sources of the pages, names and contents."""
    digest = hashlib.sha256()
    sources = [path for path in (WEB / "src").rglob("*") if path.is_file()]
    for path in sorted([*(WEB / name for name in _FILES), *sources]):
        if not path.name.endswith(".test.ts"):
            digest.update(f"{path.relative_to(WEB)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


if __name__ == "__main__":
    DIGEST.write_text(source_digest() + "\n")
