"""Holds an environment against the locks, and packages against known advisories; works offline.

`audit.py PYTHON [ADVISORIES]`: every package that PYTHON's environment has must be in a lock with
that version, and every file of it must be as its wheel brought it. ADVISORIES is a directory with
advisories in the OSV format, as in a clone of github.com/pypa/advisory-database; without it, known
weaknesses are not looked for, and the last line says so. Exits 1 if anything is found.
"""

import base64
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

from lock import HERE, normalised, read_lock

_OURS = "open-wafer-appliance"
_TOOLS = frozenset({"pip", "setuptools", "wheel"})
"""What a virtual environment is born with."""


def main() -> int:
    """Print what is found; return 1 if that is anything."""
    python, advisories = sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None
    pins = {
        name: version for path in sorted(HERE.glob("*.txt")) for name, version in read_lock(path)
    }
    installed = list(_installed(python))
    found = [each for distribution in installed for each in _differences(distribution, pins)]
    if advisories is not None:
        found += _weaknesses(advisories, installed)
    for line in found:
        print(line)
    where = advisories or "none was given, so known weaknesses were not looked for"
    print(f"{len(installed)} packages, {len(found)} findings; advisories: {where}")
    return 1 if found else 0


def _installed(python: str) -> Iterator[Distribution]:
    command = [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]
    where = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    yield from distributions(path=[where])


def _differences(distribution: Distribution, pins: dict[str, str]) -> Iterator[str]:
    name, version = normalised(distribution.name), distribution.version
    if name in _TOOLS | {_OURS}:
        return
    if name not in pins:
        if "stand-in" not in (distribution.metadata["Summary"] or ""):  # of deploy/light
            yield f"{name} {version}: no lock names it"
    elif version.partition("+")[0] != pins[name]:
        yield f"{name} {version}: the lock says {pins[name]}"
    for path in distribution.files or ():
        if path.hash is None or path.suffix == ".pyc":
            continue
        file = Path(str(path.locate()))
        if not file.exists():
            yield f"{name} {version}: {path} is missing"
            continue
        digest = hashlib.new(path.hash.mode, file.read_bytes()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != path.hash.value:
            yield f"{name} {version}: {path} is not as its wheel brought it"


def _weaknesses(directory: Path, installed: list[Distribution]) -> Iterator[str]:
    versions = {normalised(each.name): each.version.partition("+")[0] for each in installed}
    for path in sorted(directory.rglob("*.json")):
        advisory = json.loads(path.read_text())
        if advisory.get("withdrawn"):
            continue
        for affected in advisory.get("affected", ()):
            name = normalised(affected.get("package", {}).get("name", ""))
            if versions.get(name) in affected.get("versions", ()):
                summary = advisory.get("summary") or advisory.get("details", "")[:100]
                yield f"{name} {versions[name]}: {advisory['id']}: {summary}"


if __name__ == "__main__":
    raise SystemExit(main())
