"""The public CSL examples through the unmodified SDK client, against a running appliance.

`python -m tests.support.csl_examples_client DIR [--jobs N] [--only TEXT]` starts an appliance of
its own, prints one line for each command file, and stops it. DIR is as for
`tests.support.csl_examples`.
"""

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.appliance import Appliance, running_appliance
from tests.support.csl_examples import Example, Outcome, examples, report, repositories
from tests.support.sdk_client import start_sdk_client


def run(example: Example, appliance: Appliance, scratch: Path) -> Outcome:
    """Compile and run an example by the client, in an empty directory."""
    if not example.compiles:
        return Outcome(True, "no compile in its commands", 0.0, is_tried=False)
    directory = scratch / example.name.replace("/", "_").replace(" ", "_")
    start = time.monotonic()
    commands = str(example.commands.resolve())
    client = start_sdk_client("example.py", directory, appliance.config_path, commands)
    code = client.wait()
    output = client.text()
    is_good = code == 0 and ("SUCCESS!" in output or not example.reports_success)
    words = "runs" if is_good else f"does not run: exit code {code}"
    return Outcome(is_good, words, time.monotonic() - start, output)


def main() -> int:
    """Run from the command line; 1 if any example fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="examples whose name has this text")
    arguments = parser.parse_args()
    if not repositories(arguments.directory):
        parser.error(f"there is no checkout of examples in {arguments.directory}")
    chosen = [each for each in examples(arguments.directory) if arguments.only in each.name]
    with (
        tempfile.TemporaryDirectory(prefix="csl-client-") as scratch,
        running_appliance(Path(scratch) / "data", "--systems", "1") as appliance,
        ThreadPoolExecutor(arguments.jobs) as pool,
    ):
        outcomes = pool.map(lambda each: run(each, appliance, Path(scratch)), chosen)
        is_good = report(chosen, outcomes)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
