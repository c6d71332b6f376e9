"""What every operation means, slowly and obviously, in numpy.

Floating-point results are computed in float64 and rounded once to the node's type, so a definition
has no opinion on the order of a sum. The kernels must agree with it up to the rounding of float32.
"""

from appliance.numerics.reference.evaluation import defined_ops, evaluate

__all__ = ["defined_ops", "evaluate"]
