"""What a first hour costs: download, disk and time from nothing installed to a trained model.

Installs both environments as `make demo` does, without pip's cache, and runs the demonstration on
them. The download is what the machine's network interfaces receive meanwhile; a wheel that pip
finds on the machine itself does not count. Run it with nothing else on the network.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMITS = {"download": 1.3, "disk": 4.0, "seconds": 120.0}
"""Gigabytes, gigabytes, and seconds of what is not waiting for the network's bytes."""


def received_bytes() -> int:
    """Return what the network interfaces have received, loopback aside."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    fields = [line.partition(":") for line in lines]
    return sum(int(rest.split()[0]) for name, _, rest in fields if name.strip() != "lo")


def disk_bytes(path: Path) -> int:
    """Return what the files below a directory take."""
    output = subprocess.run(("du", "-s", "-B1", path), check=True, capture_output=True, text=True)
    return int(output.stdout.split()[0])


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", type=Path, help="directory for the environments; it stays")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wsc-install-") as folder:
        place = (options.keep or Path(folder)).absolute()
        appliance, client = place / "appliance", place / "client"
        environment = {**os.environ, "PIP_NO_CACHE_DIR": "1"}
        figures: dict[str, float] = {}
        before, begun = received_bytes(), time.monotonic()
        for name, path in (("appliance", appliance), ("client", client)):
            start, at = received_bytes(), time.monotonic()
            command = (ROOT / "deploy" / "setup.sh", name, path)
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
            print(
                f"installation.{name}: {(received_bytes() - start) / 1e9:.2f} GB of download, "
                f"{disk_bytes(path) / 1e9:.2f} GB of disk, {time.monotonic() - at:.0f} s"
            )
        figures["download"] = (received_bytes() - before) / 1e9
        figures["disk"] = (disk_bytes(appliance) + disk_bytes(client)) / 1e9
        path = f"{appliance / 'bin'}:{os.environ['PATH']}"
        environment |= {"PATH": path, "WSC_CLIENT_VENV": str(client)}
        at = time.monotonic()
        demo = subprocess.run(
            (ROOT / "examples" / "demo.sh",),
            env=environment,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        print(f"installation.demo: {time.monotonic() - at:.0f} s, exit code {demo.returncode}")
        figures["seconds"] = time.monotonic() - begun
    is_met = demo.returncode == 0
    for name, limit in LIMITS.items():
        is_within = figures[name] <= limit
        # Time includes the download, which is the network's, so that it only tells.
        is_met &= is_within or name == "seconds"
        verdict = "ok" if is_within else ("told" if name == "seconds" else "MISSED")
        print(f"installation.{name} {figures[name]:.2f} {limit:.2f} {verdict}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
