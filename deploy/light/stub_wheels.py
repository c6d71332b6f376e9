"""Wheels in place of those that bring CUDA's libraries to PyTorch: gigabytes that nobody calls.

    python stub_wheels.py WHEEL_OF_TORCH DIRECTORY

PyTorch's package on PyPI requires CUDA's libraries, and its own libraries are linked to them, so
that it does not load without them, GPU or not. This reads from the wheel which packages it requires
and which functions its libraries need of which others, and writes wheels with the same names and
versions, marked `+stub`: libraries that offer those functions, each of which returns an error.
Whoever has a CUDA device needs the real ones.

Small libraries that PyTorch calls while it is imported stay the real ones: the CUDA runtime, NVTX.
Nothing but the standard library, since this runs before anything is installed.
"""

import argparse
import base64
import hashlib
import posixpath
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.parser import Parser
from pathlib import Path, PurePosixPath

from elf import Needs, failing_library, read_needs

_STUBBED = re.compile(r"(nvidia|cuda)-|triton$")
_KEPT = re.compile(r"nvidia-(cuda-runtime|nvtx)(-|$)")
_KEPT_EXTRAS = {"cudart": "nvidia-cuda-runtime", "nvtx": "nvidia-nvtx"}
"""Extras of `cuda-toolkit`, which requires packages of the same names, whose libraries are real."""
_REAL_LIBRARIES = re.compile(
    r"(libcudart|libnvToolsExt|libcuda)\.so|(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)|ld-.*)\.so"
)
"""CUDA's small ones; the driver's, which is looked for once there is a device; the system's."""
_OTHERS = ("Py", "_")
"""How names of Python's and C++'s own functions begin; CUDA's libraries have C interfaces."""
_MARK = "+stub"


@dataclass(frozen=True)
class Requirement:
    """One line of `Requires-Dist` with an exact or lower-bounded version."""

    name: str
    extras: tuple[str, ...]
    version: str


@dataclass
class Library:
    """One library to be written.

    Attributes:
        directories: Where the libraries that need it look for it, relative to site-packages.
        functions: Version of each function by its name; empty for one without a version.
    """

    directories: set[str] = field(default_factory=set)
    functions: dict[str, str] = field(default_factory=dict)


def requirements_of(metadata: str) -> Iterator[Requirement]:
    """Yield the packages of CUDA that a wheel requires, from its metadata.

    Raises:
        ValueError: It requires one without saying a version.
    """
    for line in Parser().parsestr(metadata).get_all("Requires-Dist") or ():
        name, extras, bounds = re.match(
            r"([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?\s*\(?([^;)]*)", line
        ).groups()  # type: ignore[union-attr]
        if not _STUBBED.match(name) or _KEPT.match(name) or "extra ==" in line:
            continue
        version = re.search(r"[>=]=\s*([0-9][0-9.]*)", bounds)
        if version is None:
            raise ValueError(f"{line!r} says no version.")
        yield Requirement(
            name=name, extras=tuple(filter(None, (extras or "").split(","))), version=version[1]
        )


def libraries_of(needs: dict[PurePosixPath, Needs]) -> dict[str, Library]:
    """Return the libraries of CUDA that a wheel's libraries need, by their file names.

    Args:
        needs: What each library of the wheel needs, by its path there.
    """
    own = {path.name for path in needs}
    offered = set[str]().union(*(need.offered for need in needs.values()))
    found: dict[str, Library] = {}
    for path, need in needs.items():
        missing = {n for n in need.libraries if n not in own and not _REAL_LIBRARIES.match(n)}
        for name in missing:
            found.setdefault(name, Library()).directories.add(_directory(path, need))
        for (library, version), names in need.versioned.items():
            if library in missing:
                found[library].functions.update(dict.fromkeys(names, version))
        # What carries no version may come from any library that is loaded with it.
        plain = sorted(missing - {library for library, _ in need.versioned})
        if plain:
            names = {n for n in need.unversioned - offered if not n.startswith(_OTHERS)}
            found[plain[0]].functions.update(dict.fromkeys(names, ""))
    return found


def _directory(path: PurePosixPath, need: Needs) -> str:
    """Return where a library looks for those of CUDA first, relative to site-packages.

    Raises:
        ValueError: It looks for them in none of the directories of their packages.
    """
    for directory in need.directories:
        if "/nvidia/" in directory:
            return posixpath.normpath(directory.replace("$ORIGIN", str(path.parent)))
    raise ValueError(f"{path} looks for no library below nvidia/.")


def read_wheel(wheel: Path) -> tuple[str, dict[PurePosixPath, Needs]]:
    """Return a wheel's metadata and, if it is a build with CUDA, what each library needs."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as work:
        (member,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = archive.read(member).decode()
        needs: dict[PurePosixPath, Needs] = {}
        if not any(requirements_of(metadata)):
            return metadata, needs
        for name in archive.namelist():
            if re.search(r"\.so(\.[0-9.]+)?$", name):
                extracted = Path(archive.extract(name, work))
                needs[PurePosixPath(name)] = read_needs(extracted)
                extracted.unlink()
        return metadata, needs


def write_wheels(metadata: str, needs: dict[PurePosixPath, Needs], directory: Path) -> list[Path]:
    """Write a wheel for each package of CUDA; the first one holds the libraries of all.

    A build without CUDA requires none, and none is written.
    """
    requirements = sorted(requirements_of(metadata), key=lambda r: r.name.startswith(("t", "c")))
    files = {
        f"{place}/{name}": failing_library(name, library.functions)
        for name, library in libraries_of(needs).items()
        for place in library.directories
    }
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for requirement in requirements:
        written.append(_write_wheel(requirement, files, directory))
        files = {}
    return written


def _write_wheel(requirement: Requirement, files: dict[str, bytes], directory: Path) -> Path:
    name, version = requirement.name.replace("-", "_"), requirement.version + _MARK
    info = f"{name}-{version}.dist-info"
    series = ".".join(requirement.version.split(".")[:2])
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {requirement.name}",
        f"Version: {version}",
        "Summary: In place of CUDA's libraries, for machines without a CUDA device",
        *(f"Provides-Extra: {extra}" for extra in requirement.extras),
        *(
            f"Requires-Dist: {_KEPT_EXTRAS[extra]}=={series}.*"
            for extra in requirement.extras
            if extra in _KEPT_EXTRAS
        ),
    ]
    members = {
        **files,
        f"{info}/METADATA": ("\n".join(lines) + "\n").encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: stub_wheels\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-manylinux2014_x86_64\n",
    }
    record = "".join(f"{path},{_digest(data)},{len(data)}\n" for path, data in members.items())
    members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = directory / f"{name}-{version}-py3-none-manylinux2014_x86_64.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            entry = zipfile.ZipInfo(member, (2024, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if ".so" in member else 0o100644) << 16
            archive.writestr(entry, data)
    return path


def _digest(data: bytes) -> str:
    digest = hashlib.sha256(data).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Write wheels in place of CUDA's libraries.")
    parser.add_argument("wheel", type=Path, help="wheel of PyTorch, as PyPI has it")
    parser.add_argument("directory", type=Path, help="where they are written")
    arguments = parser.parse_args()
    try:
        written = write_wheels(*read_wheel(arguments.wheel), arguments.directory)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        sys.exit(f"stub_wheels: {arguments.wheel}: {error}")
    for path in written:
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
