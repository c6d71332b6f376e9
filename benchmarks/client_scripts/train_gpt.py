"""Train the benchmark's GPT with the client: on its CPU backend or on a cluster, the same script.

    python train_gpt.py --backend CPU --shape '{"width": 512}' --steps 100
    python train_gpt.py --mgmt-address localhost:9000 --num-csx 2 --shape ... --steps 100

Prints one JSON object for each step as soon as its loss is there.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE)
sys.path.append(str(HERE.parent / "programs"))

from timeline import Timeline  # noqa: E402

TIMELINE = Timeline()

import cerebras.pytorch as cstorch  # noqa: E402
import torch  # noqa: E402
from gpt import (  # noqa: E402
    BETAS,
    EPSILON,
    LEARNING_RATE,
    WEIGHT_DECAY,
    Gpt,
    GptShape,
)
from gpt_data import Batches  # noqa: E402


def train(options: argparse.Namespace) -> None:
    """Run the steps."""
    torch.manual_seed(0)
    module = Gpt(GptShape(**json.loads(options.shape)))
    model = cstorch.compile(module)
    optimizer = cstorch.optim.AdamW(
        module.parameters(), lr=LEARNING_RATE, betas=BETAS, eps=EPSILON, weight_decay=WEIGHT_DECAY
    )
    count = 0

    @cstorch.trace
    def step(batch):
        loss = model(**batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        report(loss)

    @cstorch.step_closure
    def report(loss):
        nonlocal count
        TIMELINE.mark("first loss")
        count += 1
        print(json.dumps({"step": count, "loss": float(loss)}), flush=True)

    data = cstorch.utils.data.DataLoader(Batches, json.loads(options.shape), options.gate)
    for batch in cstorch.utils.data.DataExecutor(data, num_steps=options.steps):
        step(batch)


def main() -> None:
    """Train, and write the timeline if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--backend", choices=["CSX", "CPU"], default="CSX")
    add("--mgmt-address")
    add("--num-csx", type=int, default=1)
    add("--shape", required=True)
    add("--steps", type=int, required=True)
    add("--gate", default="", help="Unix socket that hands out a byte for each batch")
    add("--out", type=Path, help="where the timeline goes")
    options = parser.parse_args()
    if options.backend == "CPU":
        cstorch.backend("CPU", artifact_dir="artifacts")
    else:
        cluster = cstorch.distributed.ClusterConfig(
            mgmt_address=options.mgmt_address,
            num_csx=options.num_csx,
            python_paths=[str(HERE), str(HERE.parent / "programs")],
        )
        cstorch.backend("CSX", artifact_dir="artifacts", cluster_config=cluster)
        cstorch.amp.set_half_dtype("bfloat16")
    train(options)
    if options.out:
        TIMELINE.write(options.out)


if __name__ == "__main__":
    main()
