"""Train and evaluate a small gigaGPT, on the CPU backend and here, from an unchanged checkout.

    python -m tests.modelzoo.gigagpt --gigagpt DIR --client VENV

On systems the program returns its loss as a bfloat16 number, which has to be the CPU backend's loss
so rounded, or the number next to it. Two systems train on other batches than one: the program deals
whole batches out to the input workers. Ends with 1 if a loss differs.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.support.appliance import running_appliance

HERE = Path(__file__).resolve().parent
VOCABULARY = 128
STEP = 2.0**-7
"""The largest relative distance of two neighbouring bfloat16 numbers."""
STEPS = 8
CONFIG = """\
width: 64
depth: 2
heads: 4
max_position_embeddings: 64
vocab_size: {vocabulary}
out_dir: {out}
dataset: {data}
batch_size: 8
sequence_length: 32
num_steps: {steps}
checkpoint_steps: {steps}
learning_rate: 6.0e-3
warmup_steps: 2
max_gradient_norm: 1000.0
execute_crd_memory_gi: 1
compile_crd_memory_gi: 2
num_csx: {systems}
mount_dirs: [{checkout}, {data}]
python_paths: [{checkout}]
"""
"""Gradients are not clipped: on the CPU backend the program clips those of the first step alone."""


def write_data(folder: Path) -> None:
    """Write two files of tokens, uint16, that a model can learn."""
    folder.mkdir()
    generator = np.random.default_rng(1)
    for name, count in (("train", 20_000), ("val", 3_000)):
        tokens = (7 * np.arange(count) + generator.integers(0, 5, count)) % 97
        tokens.astype(np.uint16).tofile(folder / f"{name}.bin")


def losses(
    program: Path, config: Path, *arguments: str, client: Path, cluster: Path | None
) -> list[float]:
    """Run a program beside its configuration; return the losses that it prints.

    Raises:
        RuntimeError: It did not end well.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    kept["PATH"] = f"{client}/bin:{kept['PATH']}"
    kept["CSCONFIG_PATH"] = str(cluster) if cluster else "/nonexistent"
    backend = ("--backend", "CSX" if cluster else "CPU")
    command = [f"{client}/bin/python", HERE / "run_gigagpt.py", program, config]
    ended = subprocess.run(
        [*map(str, command), *backend, *arguments],
        check=False,
        cwd=config.parent,
        env=kept,
        capture_output=True,
        text=True,
        timeout=600,
    )
    said = ended.stdout + ended.stderr
    if ended.returncode:
        raise RuntimeError(f"{program.name} ended with {ended.returncode}: {said[-3000:]}")
    return [float(number) for number in re.findall(r"(?:Loss=|eval loss: )([0-9.]+)", said)]


def run(
    options: argparse.Namespace, place: Path, data: Path, *, systems: int, cluster: Path | None
) -> list[float]:
    """Train, then evaluate the checkpoint; return the losses of all steps and the evaluation's."""
    place.mkdir()
    config = place / "small.yaml"
    checkout = options.gigagpt.resolve()
    config.write_text(
        CONFIG.format(
            vocabulary=VOCABULARY,
            steps=STEPS,
            out=place / "out",
            data=data,
            systems=systems,
            checkout=checkout,
        )
    )
    where = {"client": options.client, "cluster": cluster}
    trained = losses(checkout / "train.py", config, **where)
    checkpoint = str(place / "out" / f"checkpoint_{STEPS}.mdl")
    return trained + losses(checkout / "eval.py", config, "--checkpoint_path", checkpoint, **where)


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gigagpt", type=Path, required=True, help="a checkout")
    parser.add_argument("--client", type=Path, required=True, help="the Model Zoo's environment")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wsc-gigagpt-") as folder:
        place = Path(folder)
        data = place / "data"
        write_data(data)
        cpu = run(options, place / "cpu", data, systems=1, cluster=None)
        with running_appliance(place / "appliance", "--systems", "2") as appliance:
            config = appliance.config_path
            one = run(options, place / "one", data, systems=1, cluster=config)
            two = run(options, place / "two", data, systems=2, cluster=config)
    for name, found in (("CPU backend", cpu), ("1 system", one), ("2 systems", two)):
        print(f"{name:<12}", *(f"{loss:.5f}" for loss in found))
    furthest = max(abs(ours / theirs - 1) for ours, theirs in zip(one, cpu, strict=True))
    is_same, learns = furthest <= STEP, two[-1] < two[0] - 0.1
    print(f"furthest from the CPU backend {furthest:.1e}, at most {STEP:.1e}")
    return 0 if is_same and learns and len(two) == STEPS + 1 else 1


if __name__ == "__main__":
    sys.exit(main())
