"""What a first hour costs: download, disk and time from nothing installed to a trained model.

Installs both environments side by side as `make demo` does, without pip's cache, and runs the
demonstration on them. pip says what it downloads and how large each file is; a wheel that it finds
on the machine itself is told apart. The package that builds ours, 0.1 MB, is not counted: pip
fetches it unseen.

With `--record`, `installation.json` beside this file takes the figures, and what README must say of
them is printed; a test holds README to that file.
"""

import argparse
import ctypes
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = Path(__file__).with_suffix(".json")
ENVIRONMENTS = ("appliance", "client")
LIMITS = {"download": 1.3, "disk": 4.0, "seconds": 120.0}
"""Gigabytes, gigabytes, and seconds of what is not waiting for downloads."""
_PR_SET_CHILD_SUBREAPER = 36
_UNITS = {"bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
_DOWNLOAD = re.compile(r"^\s*Downloading \S+ \(([\d.]+) (bytes|kB|MB|GB)\)")
_LOCAL = re.compile(r"^\s*Processing (/\S+\.whl)")
_SAVED = "saved "
"""How the demonstration begins the line that names a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What pip took from where while it installed."""

    download: float
    """Bytes that it downloaded, to the digits that pip prints."""
    local: float
    """Bytes of the wheels that lay on the machine."""
    seconds: float
    """Time that passed while it downloaded."""


def fetched(lines: Iterable[tuple[float, str]]) -> Fetched:
    """Read what pip fetched from what it printed, and from the seconds at which each line came."""
    download = seconds = 0.0
    local: set[str] = set()
    began: float | None = None
    for at, line in lines:
        if began is not None:
            seconds += at - began
            began = None
        if match := _DOWNLOAD.match(line):
            download += float(match[1]) * _UNITS[match[2]]
            began = at
        elif match := _LOCAL.match(line):
            local.add(match[1])
    sizes = sum(Path(path).stat().st_size for path in local)
    return Fetched(download=download, local=sizes, seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What an installation takes of network and disk."""

    download_gb: float
    local_gb: float
    """Of wheels that lay on the machine, beside the download."""
    disk_gb: float

    def sentence(self) -> str:
        """Return what README says of them."""
        wheels = f" (and takes {self.local_gb:.2f} GB of wheels from disk)" if self.local_gb else ""
        return (
            f"pip downloads {self.download_gb:.2f} GB{wheels}, "
            f"and both environments take {self.disk_gb:.1f} GB of disk"
        )


def recorded() -> dict[str, Figures]:
    """Return the figures of `installation.json`, by what they were measured with."""
    return {name: Figures(**value) for name, value in json.loads(RECORD.read_text()).items()}


def disk_bytes(path: Path) -> int:
    """Return what the files below a directory take."""
    output = subprocess.run(("du", "-s", "-B1", path), check=True, capture_output=True, text=True)
    return int(output.stdout.split()[0])


def _printed(command: tuple[str | Path, ...], place: Path) -> Iterator[tuple[float, str]]:
    """Run a command that uses pip, and yield each line it prints with the second of its arrival."""
    # Paths below the working directory are printed relative to it, so that only wheels that were on
    # the machine before are absolute ones.
    environment = os.environ | {
        "PIP_NO_CACHE_DIR": "1",
        "PIP_PROGRESS_BAR": "off",
        "PIP_VERBOSE": "1",  # against the -q of the script
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(place / "tmp"),
    }
    with subprocess.Popen(
        command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield time.monotonic(), line
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Installed:
    pip: Fetched
    seconds: float


def _install(name: str, place: Path) -> _Installed:
    at = time.monotonic()
    pip = fetched(_printed((ROOT / "deploy" / "setup.sh", name, place / name), place))
    seconds = time.monotonic() - at
    print(
        f"installation.{name}: {pip.download / 1e9:.2f} GB of download, "
        f"{pip.local / 1e9:.2f} GB from this machine, "
        f"{disk_bytes(place / name) / 1e9:.2f} GB of disk, "
        f"{seconds:.0f} s, {pip.seconds:.0f} s of them for downloads",
        flush=True,
    )
    return _Installed(pip=pip, seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Demonstrated:
    trained: float
    """Seconds until the first job's model was saved."""
    all: float
    """Seconds until it had also evaluated it, gone on from it and stopped the appliance."""


def _demonstrate(place: Path) -> _Demonstrated:
    """Run the demonstration; return how long it took.

    Raises:
        CalledProcessError: It failed.
    """
    path = f"{place / 'appliance' / 'bin'}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "WSC_CLIENT_VENV": str(place / "client")}
    at = time.monotonic()
    command = (ROOT / "examples" / "demo.sh",)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        saved = [time.monotonic() for line in process.stdout if line.startswith(_SAVED)]
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return _Demonstrated(trained=saved[0] - at, all=time.monotonic() - at)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """How long all took; what a busy machine changes is not recorded."""

    seconds: float
    """To a trained model, without the downloads of the environment that took longer."""
    processor_seconds: float


def _measure(place: Path) -> tuple[Figures, _Times]:
    _adopt_orphans()
    (place / "tmp").mkdir()
    before = _processor_seconds()
    with ThreadPoolExecutor(len(ENVIRONMENTS)) as pool:
        parts = list(pool.map(lambda name: _install(name, place), ENVIRONMENTS))
    demo = _demonstrate(place)
    print(f"installation.demo: {demo.trained:.0f} s to a trained model, {demo.all:.0f} s in all")
    figures = Figures(
        download_gb=round(sum(part.pip.download for part in parts) / 1e9, 2),
        local_gb=round(sum(part.pip.local for part in parts) / 1e9, 2),
        disk_gb=round(sum(disk_bytes(place / name) for name in ENVIRONMENTS) / 1e9, 1),
    )
    times = _Times(
        seconds=max(part.seconds - part.pip.seconds for part in parts) + demo.trained,
        processor_seconds=_processor_seconds() - before,
    )
    return figures, times


def _adopt_orphans() -> None:
    """Become the parent of what the demonstration leaves behind, so that it is counted."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _processor_seconds() -> float:
    """Return what the processes that have ended have taken of processors; no other may run."""
    with suppress(ChildProcessError):
        while True:
            os.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _record(figures: Figures, case: str) -> None:
    measured = recorded() if RECORD.exists() else {}
    measured[case] = figures
    values = {name: asdict(measured[name]) for name in sorted(measured)}
    RECORD.write_text(json.dumps(values, indent=2) + "\n")
    print(f"README: {figures.sentence()}")


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", type=Path, help="directory for the environments; it stays")
    parser.add_argument(
        "--index-only",
        action="store_true",
        help="as on a machine without wheels and without a configuration of pip",
    )
    parser.add_argument("--record", action="store_true", help="write installation.json")
    options = parser.parse_args()
    # As in a new shell: what is installed is compiled when it is used first, and only then.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if options.index_only:
        os.environ |= {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""}
    with tempfile.TemporaryDirectory(prefix="wsc-install-") as folder:
        place = (options.keep or Path(folder)).absolute()
        place.mkdir(parents=True, exist_ok=True)
        figures, times = _measure(place)
    if options.record:
        _record(figures, "index alone" if options.index_only else "wheels on the machine")
    got = {
        "download": figures.download_gb,
        "disk": figures.disk_gb,
        "seconds": times.seconds,
    }
    print(f"installation.processor: {times.processor_seconds:.0f} s of processor time")
    for name, limit in LIMITS.items():
        print(
            f"installation.{name} {got[name]:.2f} <={limit:.2f} "
            f"{'ok' if got[name] <= limit else 'MISSED'}"
        )
    return 0 if all(got[name] <= limit for name, limit in LIMITS.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
