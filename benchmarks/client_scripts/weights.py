"""Send initial weights to a cluster, train one step, fetch a checkpoint; note how long each takes.

    python weights.py --mgmt-address localhost:9000 --out timeline.json [--layers 16 --width 4096]

Run with the client's Python. The weights are not deferred: every byte crosses the wire both ways.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE)

from timeline import Timeline  # noqa: E402

TIMELINE = Timeline()

import cerebras.pytorch as cstorch  # noqa: E402
import torch  # noqa: E402
from cerebras.appliance.appliance_client import ApplianceClient  # noqa: E402
from weights_data import loader  # noqa: E402


class Stack(torch.nn.Module):
    """Square linear layers one after the other; nothing but weights."""

    def __init__(self, num_layers: int, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(width, width, bias=False) for _ in range(num_layers)
        )

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return (x * x).mean()


def train(options: argparse.Namespace) -> None:
    """Run one step and save."""
    torch.manual_seed(0)
    module = Stack(options.layers, options.width)
    model = cstorch.compile(module)
    optimizer = cstorch.optim.SGD(module.parameters(), lr=0.0, momentum=0.0)

    @cstorch.trace
    def step(batch):
        loss = model(batch[0])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        report(loss)

    @cstorch.step_closure
    def report(loss):
        TIMELINE.mark("first loss")
        print(f"loss {float(loss)}", flush=True)

    @cstorch.checkpoint_closure
    def save():
        TIMELINE.mark("save begins")
        cstorch.save({"model": module.state_dict()}, str(options.checkpoint))
        TIMELINE.mark("save ends")

    data = cstorch.utils.data.DataLoader(loader, options.width)
    for batch in cstorch.utils.data.DataExecutor(data, num_steps=1, checkpoint_steps=1):
        step(batch)
        save()


def main() -> None:
    """Train against the cluster and write the timeline."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--mgmt-address", required=True)
    add("--out", type=Path, required=True)
    add("--checkpoint", type=Path, required=True)
    add("--layers", type=int, default=16)
    add("--width", type=int, default=4096)
    options = parser.parse_args()
    TIMELINE.time_calls(ApplianceClient, "send_weight", lambda _, given: given[3].nbytes)
    TIMELINE.time_calls(ApplianceClient, "recv_output", lambda result, _: result.nbytes)
    cluster = cstorch.distributed.ClusterConfig(
        mgmt_address=options.mgmt_address, num_csx=1, python_paths=[str(HERE)]
    )
    cstorch.backends.csx.debug.lazy_initialization = False
    cstorch.backend("CSX", artifact_dir="artifacts", cluster_config=cluster)
    train(options)
    TIMELINE.write(options.out)


if __name__ == "__main__":
    main()
