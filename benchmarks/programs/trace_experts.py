"""Trace one training step of a mixture of experts with the unmodified client, without a cluster.

Run with the client's Python; `benchmarks/experts.py` does so:

    python benchmarks/programs/trace_experts.py --out experts.mlir.gz --chosen 2 ...

Blocks of a router and experts, each a two-layer perceptron that computes the tokens routed to it;
the heads of embedding and classes are dense. Only the number of experts that a token goes to
differs between the two programs that are compared.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import tempfile
from pathlib import Path

import cerebras.pytorch as cstorch
import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY = 512


class Experts(nn.Module):
    """A residual block: each token is the sum of the experts that its router chooses."""

    def __init__(self, width: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.chosen, self.norm = chosen, nn.LayerNorm(width)
        self.gate = nn.Linear(width, experts, bias=False)
        self.up = nn.ParameterList(_matrix(4 * width, width) for _ in range(experts))
        self.down = nn.ParameterList(_matrix(width, 4 * width) for _ in range(experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the residual stream after this block."""
        functions, y = cstorch.nn.functional, self.norm(x)
        weights, chosen = F.softmax(self.gate(y), dim=-1).topk(self.chosen)
        marks = functions.one_hot(chosen.to(torch.int64), len(self.up)).to(weights.dtype)
        shares = (marks * weights[..., None]).sum(-2)
        masks = marks.sum(-2).to(torch.int16)
        for number, (up, down) in enumerate(zip(self.up, self.down, strict=True)):
            mask = masks[..., number]
            hidden = F.gelu(functions.sparse_act_matmul(y, mask, up), approximate="tanh")
            found = functions.sparse_act_matmul(hidden, mask, down)
            x = x + found * shares[..., number : number + 1]
        return x


class Model(nn.Module):
    """Token classification by blocks of experts."""

    def __init__(self, width: int, depth: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Experts(width, experts, chosen) for _ in range(depth))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the mean loss in nats per token."""
        x = self.tokens(input_ids)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).view(-1, VOCABULARY), labels.view(-1).long())


def _matrix(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) * 0.02)


def loader(batch_size: int, seq_len: int) -> list[dict[str, torch.Tensor]]:
    """Return the dataloader of one batch that the client traces with."""
    tokens = torch.zeros(batch_size, seq_len, dtype=torch.int32)
    return [{"input_ids": tokens, "labels": tokens}]


def trace(options: argparse.Namespace, artifacts: Path) -> str:
    """Return the program text of forward, backward and AdamW."""
    cstorch.backend("CSX", artifact_dir=str(artifacts), validate_only=True)
    torch.manual_seed(0)
    module = Model(options.width, options.depth, options.experts, options.chosen)
    model = cstorch.compile(module)
    optimizer = cstorch.optim.AdamW(module.parameters(), lr=3e-4)

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

    dataloader = cstorch.utils.data.DataLoader(loader, options.batch_size, options.seq_len)
    for batch in cstorch.utils.data.DataExecutor(dataloader, num_steps=1):
        step(batch)
    executor_dir = artifacts / "executors" / "000001"
    text = (executor_dir / "cirh.mlir").read_text()
    if not text:  # with validate_only the client keeps a failed lowering to itself
        reports = [json.loads(path.read_text()) for path in executor_dir.glob("traceback_*.json")]
        raise SystemExit(f"the client cannot lower these experts: {reports}")
    return text


def main() -> None:
    """Write the program text, compressed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    for name in ("width", "depth", "experts", "chosen", "batch-size", "seq-len"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    out = options.out.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        text = trace(options, Path(scratch) / "artifacts")
        os.chdir("/")
    partial = out.with_suffix(".partial")
    partial.write_bytes(gzip.compress(text.encode(), mtime=0))
    partial.replace(out)


if __name__ == "__main__":
    main()
