"""From the client's request for systems to its first loss, with the real client and a small GPT.

    python -m benchmarks.start_up [--runs 3]

Prints where the time goes, and one line for the bar, `name value bar ok|MISSED`; exits 1 if it is
missed. The appliance is embedded; the same program is compiled once before, so that every run finds
its compile. What the client's own process computes in the time is its own and taken off; what its
streamer and its weight program take to come up is not.
"""

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.client_scripts.running import appliance, output_of, start_client
from benchmarks.programs.gpt import GptShape

LIMIT_SECONDS = 5.0
SMALL = GptShape(width=256, depth=4, heads=4, batch_size=8, seq_len=128, vocab_size=256)
BEGIN, END = "execute requested", "first loss"


def run(address: str, directory: Path) -> dict[str, tuple[float, float]]:
    """Train two steps; return wall and processor seconds of the client's process at each mark."""
    directory.mkdir()
    out, log = directory / "timeline.json", directory / "client.log"
    client = start_client(
        "train_gpt.py",
        *("--mgmt-address", address, "--num-csx", "2", "--steps", "2"),
        *("--shape", json.dumps(asdict(SMALL)), "--out", out),
        directory=directory,
        log=log,
    )
    output_of(client, log)
    marks: dict[str, tuple[float, float]] = json.loads(out.read_text())["marks"]
    return marks


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wsc-start-") as folder:
        place = Path(folder)
        with appliance(place / "appliance", "--systems", "2") as address:
            runs = [run(address, place / str(number)) for number in range(options.runs + 1)][1:]
    beyond = []
    for marks in runs:
        (begin, busy), (end, all_busy) = marks[BEGIN], marks[END]
        beyond.append(end - begin - (all_busy - busy))
        told = sorted((wall - begin, name) for name, (wall, _) in marks.items() if wall >= begin)
        print("# " + ", ".join(f"{name} {seconds:.2f}" for seconds, name in told))
        print(f"# {end - begin:.2f} s in all, {all_busy - busy:.2f} s of them the client's own")
    value = statistics.median(beyond)
    verdict = "ok" if value < LIMIT_SECONDS else "MISSED"
    print(f"start_up.beyond_client_seconds {value:.2f} {LIMIT_SECONDS:.1f} {verdict}")
    return 0 if verdict == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())
