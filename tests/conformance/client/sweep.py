"""Train one run of a sweep: learning rate, width and seed follow from its number.

    python sweep.py --run 2 --steps 20 --out result.json

The script names no artifact directory, as scripts of users do. The result is JSON: the losses as
hexadecimal floats.
"""

from __future__ import annotations

import argparse
import json
import threading
from pathlib import Path

import cerebras.pytorch as cstorch
import torch

RATES = (0.1, 0.01, 0.03, 1e30, 0.3, 1.0, 0.001, 0.003)
"""By number, from 0; run 3 diverges."""
WIDTHS = (16, 16, 24, 16, 16, 16, 16, 16)
SEEDS = (0, 0, 0, 1, 0, 0, 0, 0)


def dataset():
    """Return 64 samples of two classes, in batches of 8."""
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(64, 8, generator=generator)
    labels = (values.sum(1) > 0).long()
    samples = torch.utils.data.TensorDataset(values, labels)
    return torch.utils.data.DataLoader(samples, batch_size=8, drop_last=True)


class Classifier(torch.nn.Module):
    """Two layers, and the loss."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, width)
        self.last = torch.nn.Linear(width, 2)

    def forward(self, batch):
        """Return the loss of a batch."""
        values, labels = batch
        return torch.nn.functional.cross_entropy(self.last(torch.relu(self.first(values))), labels)


def train(run: int, steps: int, until: Path | None) -> list[str]:
    """Train one run and return its losses; after the first step a file is waited for, if any."""
    torch.manual_seed(SEEDS[run])
    module = Classifier(WIDTHS[run])
    model = cstorch.compile(module)
    optimizer = cstorch.optim.SGD(module.parameters(), lr=RATES[run])
    losses: list[str] = []

    @cstorch.trace
    def step(batch):
        loss = model(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        report(loss)

    @cstorch.step_closure
    def report(loss):
        losses.append(float(loss).hex())
        print(f"train step {len(losses)} loss {float(loss)!r}", flush=True)
        while until is not None and not until.exists():
            threading.Event().wait(0.1)

    loader = cstorch.utils.data.DataLoader(dataset)
    for batch in cstorch.utils.data.DataExecutor(loader, num_steps=steps):
        step(batch)
    return losses


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=int, required=True)
    parser.add_argument("--until", type=Path, help="file that is waited for after a step")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--backend", choices=["CSX"], default="CSX")
    parser.add_argument("--mgmt-address")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    here = str(Path(__file__).resolve().parent)
    address = {"mgmt_address": options.mgmt_address} if options.mgmt_address else {}
    cluster = cstorch.distributed.ClusterConfig(python_paths=[here], **address)
    cstorch.backend(options.backend, cluster_config=cluster)
    losses = train(options.run, options.steps, options.until)
    options.out.write_text(json.dumps({"losses": losses}))


if __name__ == "__main__":
    main()
