"""Systems that compute elsewhere than on the processor.

There need be no such device here. What kernels, programs and the executor do on one is run on a
device that torch is told of and that has no memory: its tensors have shapes and no elements, and an
operation refuses operands of two devices. And it is run with the processor itself in the device's
place, which gives the numbers.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

from appliance.compiler.pipeline import compile_program
from appliance.core.errors import UserError
from appliance.core.ir.sharding import split_batch
from appliance.core.plans.plan import Precision
from appliance.core.pods.pod_options import Device
from appliance.numerics import devices
from appliance.numerics.devices import find_device, to_device
from appliance.numerics.programs.pool import TensorPool
from appliance.numerics.programs.program import Program
from appliance.streams.stream_topology import batch_layout, load_layout, sum_layout
from appliance.streams.torch_views import tensors_of
from workers.csx.executor import Executor
from workers.csx.wafer_program import wafer_part

FOLDER = Path(__file__).parents[1] / "compiler" / "programs"
PROGRAMS = sorted(path.name for path in FOLDER.glob("*.mlir"))


class Elsewhere(_DummyBackendModule):
    """What torch asks a kind of device; nothing is ever computed on one."""

    def is_available(self):
        return False


@pytest.fixture(scope="module")
def elsewhere():
    """A device that is not the processor."""
    _setup_privateuseone_for_python_backend("elsewhere", backend_module=Elsewhere())
    return torch.device("elsewhere", 0)


def plan_of(name):
    return compile_program((FOLDER / name).read_text(), batch_size=4, precision=Precision.F32)


def fill(view, generator):
    """Give a tensor numbers that any program can bear: weights, counts, labels."""
    if view.dtype.kind == "f":
        view[...] = generator.uniform(0.01, 0.3, size=view.shape)
    else:
        view[...] = generator.integers(0, 2, size=view.shape)


def whole_batch(plan):
    (shard,) = split_batch(plan.batch_size, 1)
    return shard


def run_step(plan, part, device):
    """Run one step on numbers that are the same in every call; return all sums."""
    shard, generator = whole_batch(plan), np.random.default_rng(7)
    executor = Executor(part, device)
    layout = batch_layout(plan, shard)
    batch = np.zeros(layout.num_bytes, np.uint8)
    for view in layout.views(batch).values():
        fill(view, generator)
    executor.begin(0, tensors_of(layout, batch))
    found = {}
    for index, step in enumerate(plan.layer_steps):
        loads, sums = load_layout(plan, step.loads), sum_layout(plan, step)
        slot, out = (np.zeros(each.num_bytes, np.uint8) for each in (loads, sums))
        for view in loads.views(slot).values():
            fill(view, generator)
        executor.compute(index, tensors_of(loads, slot), tensors_of(sums, out))
        if device is not None:
            assert {tensor.device for tensor in executor.activations.values()} <= {device}
        slot[:] = 0xFF
        found |= {name: np.array(view) for name, view in sums.views(out).items()}
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_same_numbers_by_torchs_operations_alone(name) -> None:
    plan = plan_of(name)
    part = wafer_part(plan, whole_batch(plan))
    found = run_step(plan, part, torch.device("cpu"))
    for total, expected in run_step(plan, part, None).items():
        np.testing.assert_allclose(found[total], expected, rtol=2e-4, atol=1e-6, err_msg=total)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_operation_of_a_program_finds_its_operands_on_the_device(name, elsewhere) -> None:
    plan = plan_of(name)
    part = wafer_part(plan, whole_batch(plan))
    with FakeTensorMode(allow_non_fake_inputs=True):
        run_step(plan, part, elsewhere)


def test_what_is_repeated_is_moved_once_and_stays_repeated(elsewhere) -> None:
    splat = torch.full((), 3.0).expand(1000, 2)
    with FakeTensorMode(allow_non_fake_inputs=True):
        moved = to_device(splat, elsewhere)
        assert moved.device == elsewhere
        assert moved.shape == splat.shape
        assert moved.untyped_storage().nbytes() == splat.element_size()
        assert to_device(moved, elsewhere) is moved


def test_a_program_elsewhere_has_no_memory_of_the_processors() -> None:
    with pytest.raises(ValueError, match="runs on cuda:0"):
        Program([], types={}, live_out=(), pool=TensorPool(), device=torch.device("cuda", 0))


def test_the_processor_is_no_device() -> None:
    assert find_device(Device.CPU, 3) is None


def test_a_missing_device_is_one_clear_error(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="finds no such device") as caught:
        find_device(Device.CUDA, 0)
    assert "--csx-device cpu" in caught.value.hint


def test_systems_are_dealt_out_to_the_devices_which_are_told_to_repeat_their_bits(
    monkeypatch,
) -> None:
    told = {}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda **given: told.update(given))
    monkeypatch.delenv(devices._WORKSPACE, raising=False)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", torch.backends.cudnn.allow_tf32)
    found = [find_device(Device.CUDA, number) for number in range(3)]
    assert [device.index for device in found] == [0, 1, 0]
    assert told["mode"] is True
    assert not torch.backends.cudnn.allow_tf32
    assert devices.os.environ[devices._WORKSPACE] == devices._FIXED_WORKSPACE
