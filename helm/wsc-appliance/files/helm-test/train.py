"""What `helm test` submits: a small network, trained by PyTorch and by the appliance.

Their losses have to agree. It is a script as users write them, and needs nothing but the client.
"""

import tempfile

import cerebras.pytorch as cstorch
import torch

STEPS, BATCH, RATE = 4, 8, 0.1
TOLERANCE = 1e-3  # of a loss; sums in another order differ by 1e-6


def make_network() -> torch.nn.Module:
    """Return the network before its first step, the same each time."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def batches() -> torch.utils.data.DataLoader:
    """Return inputs, shape (8, 16), and targets, shape (8, 4), of four steps."""
    wave = torch.sin(torch.arange(STEPS * BATCH * 20, dtype=torch.float32) * 0.37).view(-1, 20)
    samples = torch.utils.data.TensorDataset(wave[:, :16], wave[:, 16:])
    return torch.utils.data.DataLoader(samples, batch_size=BATCH)


def losses_of_pytorch() -> list[float]:
    """Train here."""
    network, losses = make_network(), []
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    for inputs, targets in batches():
        loss = torch.nn.functional.mse_loss(network(inputs), targets)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


def losses_of_the_appliance() -> list[float]:
    """Train on one system."""
    cluster = cstorch.distributed.ClusterConfig(num_csx=1, job_labels=["run=helm-test"])
    cstorch.backend("CSX", artifact_dir=tempfile.mkdtemp(), cluster_config=cluster)
    network, losses = make_network(), []
    model = cstorch.compile(network)
    optimizer = cstorch.optim.SGD(network.parameters(), lr=RATE, momentum=0.0)

    @cstorch.trace
    def step(inputs: torch.Tensor, targets: torch.Tensor) -> None:
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        keep(loss)

    @cstorch.step_closure
    def keep(loss: torch.Tensor) -> None:
        losses.append(loss.item())

    loader = cstorch.utils.data.DataLoader(batches)
    for batch in cstorch.utils.data.DataExecutor(loader, num_steps=STEPS):
        step(*batch)
    return losses


expected, found = losses_of_pytorch(), losses_of_the_appliance()
shown = [" ".join(f"{loss:.5f}" for loss in each) for each in (found, expected)]
told = f"losses {shown[0]}, of PyTorch {shown[1]}"
near = [abs(one - other) <= TOLERANCE * other for one, other in zip(found, expected, strict=False)]
if len(found) != STEPS or not all(near):
    raise SystemExit(f"the appliance does not compute what PyTorch does: {told}")
print(f"the appliance computes what PyTorch does: {told}")
