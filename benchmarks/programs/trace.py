"""Trace one training step of a benchmark model with the unmodified client, without a cluster.

Run with the client's Python; `capture.py` does so:

    python benchmarks/programs/trace.py --out gpt.mlir.gz --model gpt --shape '{"width": 512}'
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UPDATE_STEPS = 100
"""How often algorithms that change masks take a new one."""
sys.path[0] = str(ROOT)

import cerebras.pytorch as cstorch  # noqa: E402
import torch  # noqa: E402

from benchmarks.programs.gpt import BETAS, EPSILON, LEARNING_RATE, WEIGHT_DECAY  # noqa: E402
from benchmarks.programs.models import MODELS  # noqa: E402


def loader(model: str, shape: dict[str, int]) -> list[dict[str, torch.Tensor]]:
    """Return the dataloader of one batch that the client traces with."""
    return MODELS[model].batches(MODELS[model].shape(**shape), 1)


def masking(algorithm: str, sparsity: float) -> dict[str, object]:
    """Return the client's options of an algorithm whose masks hide this part of each weight."""
    if algorithm == "static":
        return {"algorithm": algorithm, "sparsity": sparsity}
    update = {"freq": UPDATE_STEPS}
    if algorithm == "gmp":  # which refuses a schedule that is called constant
        schedule = {"type": "linear", "init": sparsity, "slope": 0.0}
        return {"algorithm": algorithm, "schedule": schedule, "update": update}
    return {"algorithm": algorithm, "sparsity": sparsity, "update": update, "drop_fraction": 0.25}


def trace(options: argparse.Namespace, artifacts: Path) -> str:
    """Return the program text of forward, backward and AdamW; weights may be under masks."""
    cstorch.backend("CSX", artifact_dir=str(artifacts), validate_only=True)
    cstorch.amp.set_half_dtype(options.half_dtype)
    torch.manual_seed(0)
    chosen = MODELS[options.model]
    module = chosen.module(chosen.shape(**options.shape))
    model = cstorch.compile(module)
    optimizer = cstorch.optim.AdamW(
        module.parameters(), lr=LEARNING_RATE, betas=BETAS, eps=EPSILON, weight_decay=WEIGHT_DECAY
    )
    if options.sparsity:
        masks = cstorch.sparse.configure(masking(options.algorithm, options.sparsity))
        module.apply(masks)
        optimizer.apply(masks)

    @cstorch.trace
    def step(batch: dict[str, torch.Tensor]) -> None:
        loss = model(**batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        report(loss)

    @cstorch.step_closure
    def report(loss: torch.Tensor) -> None:
        pass

    dataloader = cstorch.utils.data.DataLoader(loader, options.model, options.shape)
    for batch in cstorch.utils.data.DataExecutor(dataloader, num_steps=1):
        step(batch)
    executor_dir = artifacts / "executors" / "000001"
    text = (executor_dir / "cirh.mlir").read_text()
    if not text:  # with validate_only the client keeps a failed lowering to itself
        reports = [json.loads(path.read_text()) for path in executor_dir.glob("traceback_*.json")]
        raise SystemExit(f"the client cannot lower {options.model}: {reports}")
    return text


def main() -> None:
    """Write the program text, compressed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--half-dtype", default="bfloat16")
    parser.add_argument("--sparsity", type=float, default=0.0, help="part of a weight masked out")
    parser.add_argument("--algorithm", choices=("static", "gmp", "set", "rigl"), default="static")
    parser.add_argument("--model", choices=sorted(MODELS), required=True)
    parser.add_argument("--shape", type=json.loads, required=True, help="fields, as JSON")
    options = parser.parse_args()
    out = options.out.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        artifacts = Path(scratch) / "artifacts"
        text = trace(options, artifacts)
        os.chdir("/")
    partial = out.with_suffix(".partial")
    partial.write_bytes(gzip.compress(text.encode(), mtime=0))
    partial.replace(out)


if __name__ == "__main__":
    main()
