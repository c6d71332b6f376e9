"""`python -m tests.chaos [--faults N] [--seed N] [--compose]`: hurt an appliance, and count."""

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos import bench
from tests.support.containers import choose_images, composed, running_engine
from tests.support.ports import free_port


def main():
    """Run from the command line; 1 if a promise was not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--compose", action="store_true", help="that of docker-compose.yml")
    options = parser.parse_args()
    begun = time.monotonic()
    findings = on_compose(options) if options.compose else embedded(options)
    lines, promises_hold = bench.table(findings)
    print("\n".join(lines))
    print(f"Seed {options.seed}, {time.monotonic() - begun:.0f} s.")
    return 0 if promises_hold else 1


def embedded(options):
    """Hurt the embedded appliance."""
    with tempfile.TemporaryDirectory(prefix="wsc-chaos-") as directory:
        return bench.run_all(Path(directory), options.seed, options.faults)


def on_compose(options):
    """Hurt the appliance of docker-compose.yml, which needs root and a container engine."""
    port = free_port()
    with running_engine() as engine:
        variables = choose_images(engine).variables | {"WSC_PORT": str(port)}
        with composed(engine, f"wsc-chaos-{secrets.token_hex(4)}", variables, csx=2) as compose:
            return bench.run_on_compose(compose, engine, port, options.seed, options.faults)


if __name__ == "__main__":
    sys.exit(main())
