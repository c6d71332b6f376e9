"""Writes the locks of the appliance's environments: each package with the hashes of its wheel.

`make lock` runs this after a change of constraints.txt or of the dependencies in pyproject.toml. It
asks pip itself what it would install and from which file, so that nothing is installed and no other
index is asked than pip's own. Hashes that a lock already has of the same version are kept, so that
a wheel of another platform, or another build of PyTorch, is added by running this there.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LINE = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)(?P<hashes>(?: --hash=\S+)+)$")
TORCH = "torch"
"""In a file of its own: deploy/light/fetch-torch chooses its wheel, check-torch looks at it."""

HOST_PACKAGES = ROOT / "appliance" / "sdk" / "host_packages.txt"
"""What cs_python has before the appliance's packages: it travels with our own."""
_HOST_NUMPY = "1.26.4"
"""The last NumPy 1: the SDK's client pins 1.25, which has no wheel for Python 3.12."""

_SITE = ("mkdocs-material==9.8.2", "pymdown-extensions==12.3")
"""In an environment of its own: nothing that runs or is tested needs it. Later extensions want
Python 3.11.5, and Debian 12 has 3.11.2."""

Lock = dict[tuple[str, str], set[str]]
"""SHA-256 hashes of wheels, by name and version."""


def main() -> None:
    """Write every lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    runtime = project["dependencies"]
    optional = project["optional-dependencies"]
    extras = [each for group in optional.values() for each in group]
    here = _wheels([*runtime, *extras])
    needed = {name for name, _ in _wheels(runtime)}
    sdk = {name for name, _ in _wheels([*runtime, *optional["sdk"]])} - needed
    tracing = {name for name, _ in _wheels([*runtime, *optional["tracing"]])} - needed - sdk
    editors = {name for name, _ in _wheels([*runtime, *optional["editors"]])}
    editors -= needed | sdk | tracing
    torch = {key: hashes for key, hashes in here.items() if key[0] == TORCH}
    for key, hashes in _wheels([f"torch=={_public(torch)}"], "--no-deps", is_isolated=True).items():
        torch.setdefault((TORCH, _public({key: hashes})), set()).update(hashes)
    torch = {(TORCH, _public(torch)): set().union(*torch.values())}
    _write("torch.txt", torch)
    others = {key: hashes for key, hashes in here.items() if key[0] != TORCH}
    host = _wheels([f"numpy=={_HOST_NUMPY}"], "--no-deps", is_constrained=False)
    _write(HOST_PACKAGES, host)
    _write("docs.txt", _wheels(_SITE, is_constrained=False))
    _write("appliance.txt", {key: each for key, each in others.items() if key[0] in needed})
    _write("sdk.txt", {key: each for key, each in others.items() if key[0] in sdk})
    _write("tracing.txt", {key: each for key, each in others.items() if key[0] in tracing})
    _write("editors.txt", {key: each for key, each in others.items() if key[0] in editors})
    known = needed | sdk | tracing | editors
    tools = {key: each for key, each in others.items() if key[0] not in known}
    _write("tools.txt", tools)


def _public(lock: Mapping[tuple[str, str], set[str]]) -> str:
    """Return the version of the one package of a lock, without what its build adds to it."""
    ((_, version), *_) = lock
    return version.partition("+")[0]


def _wheels(
    requirements: Iterable[str],
    *options: str,
    is_isolated: bool = False,
    is_constrained: bool = True,
) -> Lock:
    """Return what pip would install in an empty environment."""
    with tempfile.TemporaryDirectory() as scratch:
        wanted, report = Path(scratch, "wanted.txt"), Path(scratch, "report.json")
        wanted.write_text("\n".join(requirements))
        isolated = ("--isolated",) if is_isolated else ()
        command = [sys.executable, "-m", "pip", *isolated, "install", "-q", "--dry-run"]
        command += ["--ignore-installed", "--report", str(report), *options]
        command += ["-c", str(ROOT / "constraints.txt")] if is_constrained else []
        command += ["-r", str(wanted)]
        certificates = os.environ.get("PIP_CERT")
        if is_isolated and certificates:
            command += ["--cert", certificates]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        installs = json.loads(report.read_text())["install"]
    return {
        (normalised(each["metadata"]["name"]), each["metadata"]["version"]): {
            each["download_info"]["archive_info"]["hashes"]["sha256"]
        }
        for each in installs
    }


def normalised(name: str) -> str:
    """Return a package's name as indexes write it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(path: Path) -> Lock:
    """Return what a lock holds; nothing if there is none."""
    lock: Lock = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        if (found := LINE.match(line)) is not None:
            hashes = found["hashes"].replace("--hash=sha256:", "").split()
            lock[found["name"], found["version"]] = set(hashes)
    return lock


def _write(name: str | Path, lock: Lock) -> None:
    path = HERE / name
    known = read_lock(path)
    lines = ["# Written by deploy/locks/lock.py (make lock); not to be edited."]
    for key, hashes in sorted(lock.items()):
        every = sorted(hashes | known.get(key, set()))
        lines.append(
            " ".join([f"{key[0]}=={key[1]}", *(f"--hash=sha256:{each}" for each in every)])
        )
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
