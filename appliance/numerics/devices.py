"""Computation on a device such as CUDA instead of the processor, with torch's kernels alone.

Kernels are built and run with the device as torch's default, so that new tensors are created there.
Tensors made in the processor's memory (constants of a plan, and random numbers, whose bits must not
depend on the device) are moved. Loops in machine code, oneDNN and pooled results are used on the
processor only.
"""

import os
from dataclasses import replace

import torch

from appliance.core.errors import UserError
from appliance.core.pods.pod_options import Device
from appliance.numerics.groups import Group
from appliance.numerics.kernels import Kernel

_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
_FIXED_WORKSPACE = ":4096:8"
"""With one of a fixed size cuBLAS gives the same bits in every run; from its documentation."""


def find_device(wanted: Device, number: int) -> torch.device | None:
    """Return the device of one of several that share a node; None for the processor.

    CUDA is configured to give the same bits in every run and to multiply in full float32. Call this
    before anything is computed there.

    Args:
        wanted: What kind of device.
        number: Counts those who ask, from 0; they are dealt out to the devices there are.

    Raises:
        UserError: There is none.
    """
    if wanted is Device.CPU:
        return None
    os.environ.setdefault(_WORKSPACE, _FIXED_WORKSPACE)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise UserError(
            f"Systems are to compute on CUDA, and PyTorch {torch.__version__} finds no such device "
            "on this node.",
            hint="Install a build of PyTorch with CUDA where pods run, or start the appliance with "
            f"--csx-device {Device.CPU}.",
        )
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    return torch.device(wanted, number % count)


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor on a device, itself if it is there; what is repeated stays so."""
    if tensor.device == device:
        return tensor
    once = tensor[tuple(slice(0, 1) if step == 0 else slice(None) for step in tensor.stride())]
    return once.to(device).expand(tensor.shape)


def on_device(group: Group, device: torch.device) -> Group:
    """Return a group whose results are new tensors on a device, wherever its kernel makes them."""
    kernel = group.kernel

    def call(*operands: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        found = kernel.call(*operands)
        if isinstance(found, torch.Tensor):
            return to_device(found, device)
        return tuple([to_device(each, device) for each in found])

    return replace(group, kernel=Kernel(call=call, reads_step=kernel.reads_step))
