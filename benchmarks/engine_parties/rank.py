"""One process of a PyTorch baseline; trains a block of steps whenever a line on stdin asks for it.

    python benchmarks/engine_parties/rank.py --kind plain --threads 2 --shape '{"width": 512}'

Kinds: `plain` (eager PyTorch), `compiled` (`torch.compile` with Inductor, which needs g++),
`autocast` (eager in bfloat16 autocast), `compiled-autocast` (both), `cuda` (eager in float32 on a
CUDA device, TF32 off), `ddp`, `fsdp2`, `zero3` (DeepSpeed, parameters and optimizer offloaded); all
with AdamW, fused where PyTorch's own is used.
The distributed ones find each other by torch's usual environment variables and share the batch
evenly. A line holds the number of steps; the answer is one JSON object on a line,
`{"loss": ...}`, once they are done.

It runs in our environment and in the baselines' own, so nothing of the appliance is imported.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

import torch  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402

from benchmarks.programs.gpt import BETAS, EPSILON, LEARNING_RATE, WEIGHT_DECAY  # noqa: E402
from benchmarks.programs.models import MODELS  # noqa: E402

NUM_BATCHES = 8
ADAMW: dict[str, Any] = {
    "lr": LEARNING_RATE,
    "betas": BETAS,
    "eps": EPSILON,
    "weight_decay": WEIGHT_DECAY,
}

Step = Callable[[dict[str, torch.Tensor]], torch.Tensor]


def fused_step(model: torch.nn.Module, forward: Callable[..., torch.Tensor] | None = None) -> Step:
    """Return a training step with PyTorch's fused AdamW; the model itself is the forward pass."""
    forward = model if forward is None else forward
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, **ADAMW)

    def step(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        loss: torch.Tensor = forward(**batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


def plain(model: torch.nn.Module, local_batch: int) -> Step:
    """Return the step of eager PyTorch in one process."""
    return fused_step(model)


def compiled(model: torch.nn.Module, local_batch: int) -> Step:
    """Return the step of PyTorch's compiler in one process."""
    return fused_step(model, torch.compile(model))


def in_bfloat16(model: torch.nn.Module, run: Callable[..., torch.Tensor] | None = None) -> Step:
    """Return a training step whose forward pass runs in bfloat16 autocast, weights in float32."""
    run = model if run is None else run

    def forward(**batch: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss: torch.Tensor = run(**batch)
        return loss

    return fused_step(model, forward)


def autocast(model: torch.nn.Module, local_batch: int) -> Step:
    """Return the step of eager PyTorch in bfloat16 autocast."""
    return in_bfloat16(model)


def compiled_autocast(model: torch.nn.Module, local_batch: int) -> Step:
    """Return the step of PyTorch's compiler in bfloat16 autocast."""
    return in_bfloat16(model, torch.compile(model))


def cuda(model: torch.nn.Module, local_batch: int) -> Step:
    """Return the step of eager PyTorch in full float32 on the first CUDA device."""
    torch.backends.cuda.matmul.allow_tf32 = False
    step = fused_step(model.cuda())

    def on_device(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return step({name: tensor.cuda() for name, tensor in batch.items()})

    return on_device


def ddp(model: torch.nn.Module, local_batch: int) -> Step:
    """Return the step of distributed data parallelism over gloo."""
    torch.distributed.init_process_group("gloo")
    wrapped = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    return fused_step(wrapped)


def fsdp2(model: torch.nn.Module, local_batch: int) -> Step:
    """Return the step of fully sharded data parallelism, one group for each block."""
    torch.distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    blocks = model.blocks
    assert isinstance(blocks, torch.nn.ModuleList)
    for block in blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return fused_step(model)


def zero3(model: torch.nn.Module, local_batch: int) -> Step:
    """Return the step of DeepSpeed's third stage with everything offloaded to the CPU."""
    import deepspeed  # noqa: PLC0415 - in the baselines' own environment only

    config = {
        "train_micro_batch_size_per_gpu": local_batch,
        "gradient_accumulation_steps": 1,
        "optimizer": {"type": "AdamW", "params": ADAMW},
        "gradient_clipping": 0.0,  # its default of 1.0 would train another model than the others do
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {"device": "cpu"},
            "offload_param": {"device": "cpu"},
        },
    }
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=list(model.parameters()), config=config
    )

    def step(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        loss: torch.Tensor = engine(**batch)
        engine.backward(loss)
        engine.step()
        return loss

    return step


KINDS: dict[str, Callable[[torch.nn.Module, int], Step]] = {
    "plain": plain,
    "compiled": compiled,
    "autocast": autocast,
    "compiled-autocast": compiled_autocast,
    "cuda": cuda,
    "ddp": ddp,
    "fsdp2": fsdp2,
    "zero3": zero3,
}


def local_batches(
    batches: list[dict[str, torch.Tensor]], rank: int, size: int
) -> list[dict[str, torch.Tensor]]:
    """Return this rank's share of each batch."""
    found = []
    for batch in batches:
        (num_samples,) = {len(value) for value in batch.values()}
        share = slice(rank * num_samples // size, (rank + 1) * num_samples // size)
        found.append({name: value[share] for name, value in batch.items()})
    return found


def main() -> None:
    """Answer blocks of steps until stdin ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=sorted(KINDS), required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--model", choices=sorted(MODELS), default="gpt")
    parser.add_argument("--shape", required=True, help="fields of its shape, as JSON")
    options = parser.parse_args()
    # What libraries print must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch.set_num_threads(options.threads)
    model = MODELS[options.model]
    shape = model.shape(**json.loads(options.shape))
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    torch.manual_seed(0)
    data = local_batches(model.batches(shape, NUM_BATCHES), rank, size)
    step = KINDS[options.kind](model.module(shape), len(data[0]["labels"]))
    torch.set_num_threads(options.threads)  # DeepSpeed sets its own
    print(json.dumps({"ready": True}), file=answers)
    count = 0
    for line in sys.stdin:
        loss = torch.zeros(())
        for _ in range(int(line)):
            loss = step(data[count % NUM_BATCHES])
            count += 1
        print(json.dumps({"loss": float(loss)}), file=answers)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
