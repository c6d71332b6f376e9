"""A few steps of the small GPT of `examples/gpt`, by the unmodified client, for the labs."""

from __future__ import annotations

import json
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import cerebras.pytorch as cstorch
import torch

GPT = Path(__file__).resolve().parents[1] / "gpt"
sys.path.insert(0, str(GPT))

from data import VOCAB_SIZE, Batches  # noqa: E402
from lab import csctl  # noqa: E402
from model import Gpt  # noqa: E402


def train(*, width: int, depth: int, steps: int, batch_size: int, seq_len: int) -> str:
    """Train the small GPT on one system with the unmodified client; return the execute job."""
    label = f"lab-{uuid.uuid4().hex[:8]}"
    cluster = cstorch.distributed.ClusterConfig(
        num_csx=1, job_labels=[f"run={label}"], python_paths=[str(GPT)]
    )
    cstorch.backend("CSX", artifact_dir=tempfile.mkdtemp(), cluster_config=cluster)
    cstorch.amp.set_half_dtype("cbfloat16")
    torch.manual_seed(1)
    module = Gpt(VOCAB_SIZE, seq_len, width=width, depth=depth)
    model = cstorch.compile(module)
    optimizer = cstorch.optim.AdamW(module.parameters(), lr=3e-3)
    loader = cstorch.utils.data.DataLoader(Batches, "train", batch_size, seq_len)

    @cstorch.trace
    def training_step(batch: dict[str, Any]) -> None:
        loss = model(**batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        report(loss)

    @cstorch.step_closure
    def report(loss: object) -> None:
        print(f"loss {float(loss):.3f}")  # type: ignore[arg-type]

    module.train()
    for batch in cstorch.utils.data.DataExecutor(loader, num_steps=steps):
        training_step(batch)
    jobs = json.loads(csctl("get", "jobs", "-a", "-l", f"run={label}", "-o", "json"))["items"]
    (job,) = (job for job in jobs if job["spec"]["type"] == "execute")
    return str(job["meta"]["name"])
