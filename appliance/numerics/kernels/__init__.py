"""Fast kernels, in torch: each computes what `appliance.numerics.reference` defines."""

from appliance.numerics.kernels.compile import compile_node, supported_ops
from appliance.numerics.kernels.kernel import Kernel

__all__ = ["Kernel", "compile_node", "supported_ops"]
