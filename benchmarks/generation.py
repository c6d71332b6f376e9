"""Tokens a second of greedy generation, against the same model on the client's CPU backend.

    python -m benchmarks.generation [--model gpt2 llama] [--systems 1 2] [--batches 3]

Both run the real client, in turns. A cluster generates with caches of keys and values; the CPU
backend has no loop over positions, so that the program runs the whole model for each token. The
first batch of a run, which starts a job, is not counted. One line for each bar,
`name value bar ok|MISSED`; exits 1 if one is missed or tokens differ.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.client_scripts.running import appliance, output_of, start_client

PROGRAM = Path(__file__).resolve().parents[1] / "tests" / "conformance" / "client" / "generation.py"
LEAST = 0.8
"""Of the CPU backend's tokens a second."""
PROMPT = 8


def run(arguments: tuple[str, ...], directory: Path) -> dict[str, Any]:
    """Generate; return the tokens of all batches and the seconds of each."""
    directory.mkdir(parents=True)
    out, log = directory / "result.json", directory / "client.log"
    client = start_client(str(PROGRAM), *arguments, "--out", out, directory=directory, log=log)
    output_of(client, log)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def pace(found: dict[str, Any], options: argparse.Namespace) -> float:
    """Return tokens a second, the first batch left out."""
    tokens: int = options.batch_size * (options.positions - PROMPT)
    seconds: float = statistics.median(found["seconds"][1:])
    return tokens / seconds


def compared(options: argparse.Namespace, address: str, place: Path) -> Iterator[str]:
    """Yield a line for each model and number of systems."""
    sizes = (
        *("--width", str(options.width), "--layers", str(options.layers)),
        *("--positions", str(options.positions), "--prompt", str(PROMPT)),
        *("--batch-size", str(options.batch_size), "--batches", str(options.batches)),
    )
    for model in options.model:
        for systems in options.systems:
            same, where = ("--model", model, *sizes), place / f"{model}-{systems}"
            cluster = ("--backend", "CSX", "--mgmt-address", address, "--num-csx", str(systems))
            ours, cpu = run((*same, *cluster), where / "csx"), run(same, where / "cpu")
            value, plain = pace(ours, options), pace(cpu, options)
            equal = ours["tokens"] == cpu["tokens"]
            print(f"# {model} on {systems}: {value:.0f} tokens/s, CPU backend {plain:.0f}")
            verdict = "ok" if equal and value / plain >= LEAST else "MISSED"
            told = "" if equal else "-tokens-differ"
            name = f"generation.{model}.{systems}{told}"
            yield f"{name} {value / plain:.3f} >={LEAST} {verdict}"


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", nargs="+", choices=["gpt2", "llama"], default=["gpt2", "llama"])
    parser.add_argument("--systems", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--positions", type=int, default=72)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--batches", type=int, default=3)
    options = parser.parse_args()
    most = str(max(options.systems))
    with tempfile.TemporaryDirectory(prefix="wsc-generation-") as folder:
        place = Path(folder)
        with appliance(place / "appliance", "--systems", most) as address:
            lines = list(compared(options, address, place))
    print("\n".join(lines))
    return 1 if any(line.endswith("MISSED") for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
