"""The packages that host programs find before the appliance's own: NumPy 1.26.

The SDK's Python has NumPy 1, in which sums of 16-bit words widen; NumPy 2, which the appliance
computes with, wraps them, and every public program that joins the three words of a clock would
print wrong cycles without an error. So `cs_python` has a directory with NumPy 1.26 first on its
path; scipy, pandas and matplotlib, and the simulator, are the appliance's and work with either.

`python -m appliance.sdk.host_packages` installs the directory, as `make setup` and the images do.
Elsewhere `cs_python` does it when it first runs.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = Path(__file__).with_name("host_packages.txt")
"""What is installed, with the hashes of its wheels."""

DIRECTORY_VARIABLE = "WSC_CS_PYTHON_PACKAGES"
"""Variable with another directory that has the packages; `none` leaves them out."""

_LAST_PYTHON = (3, 12)
"""The last one that NumPy 1.26 is built for."""


class HostPackagesError(Exception):
    """The packages are not there and cannot be installed; the text says what to do."""


def version() -> str:
    """Return the version of NumPy that host programs have."""
    found = re.search(r"^numpy==(\S+)", LOCK.read_text(), re.MULTILINE)
    assert found is not None, "the lock names numpy"
    return found[1]


def directory() -> Path | None:
    """Return the directory with the packages, installed if need be; None where they are left out.

    Raises:
        HostPackagesError: It is not there and cannot be made.
    """
    given = os.environ.get(DIRECTORY_VARIABLE, "")
    if given == "none":
        return None
    if given:
        if not _is_complete(Path(given)):
            text = f"{DIRECTORY_VARIABLE} names {given}, which has no numpy {version()}."
            raise HostPackagesError(text)
        return Path(given)
    for place in _places():
        if _is_complete(place):
            return place
    return install(_first_writable())


def install(target: Path) -> Path:
    """Install the packages in a directory, unless they are there, and return it.

    Raises:
        HostPackagesError: pip cannot, or there is none for this Python.
    """
    if _is_complete(target):
        return target
    if sys.version_info[:2] > _LAST_PYTHON:
        raise HostPackagesError(
            f"There is no numpy {version()} for Python {sys.version_info[0]}."
            f"{sys.version_info[1]}; install the appliance with Python 3.11 or 3.12."
        )
    sys.stderr.write(f"cs_python: installing numpy {version()} for host programs in {target}\n")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        _pip(scratch)
        scratch.chmod(0o755)
        if not _is_complete(target):  # another process may have been faster
            shutil.rmtree(target, ignore_errors=True)
            scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _pip(scratch: Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    command += ["--no-compile", "--no-deps", "--require-hashes", "--target", str(scratch)]
    done = subprocess.run(
        [*command, "-r", str(LOCK)], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        raise HostPackagesError(
            f"numpy {version()}, which host programs need, cannot be installed: "
            f"{(done.stderr.strip().splitlines() or ['pip failed'])[-1]}\n"
            f"Where there is a package index, run: {sys.executable} -m appliance.sdk.host_packages "
            f"DIRECTORY, and set {DIRECTORY_VARIABLE} to the directory; or to 'none' for the "
            "appliance's NumPy 2, in which sums of 16-bit words wrap."
        )


def _is_complete(place: Path) -> bool:
    return (place / f"numpy-{version()}.dist-info" / "RECORD").is_file()


def _places() -> tuple[Path, Path]:
    """Where the packages may lie: beside the appliance, or in the user's cache."""
    name = f"cs_python-{sys.version_info[0]}.{sys.version_info[1]}-numpy-{version()}"
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(sys.prefix) / "share" / name, Path(cache) / "wsc" / name


def _first_writable() -> Path:
    beside, cached = _places()
    parent = next(each for each in beside.parents if each.is_dir())
    return beside if os.access(parent, os.W_OK) else cached


def main() -> int:
    """Install the packages where `cs_python` finds them, or in the directory that is given."""
    try:
        sys.stdout.write(f"{install(Path(sys.argv[1]) if sys.argv[1:] else _first_writable())}\n")
    except (HostPackagesError, OSError) as error:
        sys.stderr.write(f"cs_python: error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
