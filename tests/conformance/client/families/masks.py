"""The algorithms of the client's sparsity, with their initial masks, schedules and groups.

Sparsity only grows: where it falls, the client's CPU backend and its program choose differently
among weights that are all zero (docs/compatibility.md).
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from models import VECTORS, Mlp
from torch import nn

from families.together import Batch, Family

STATIC = {"algorithm": "static", "sparsity": 0.5}
GMP = {"algorithm": "gmp", "update": {"freq": 1}}
RIGL = {"algorithm": "rigl", "sparsity": 0.5, "update": {"freq": 2}, "drop_fraction": 0.25}
GROWING = {"type": "linear", "init": 0.25, "slope": 0.125}

ALGORITHMS: dict[str, dict[str, Any]] = {
    "static_random": {**STATIC, "init_method": "random"},
    "static_topk": {**STATIC, "sparsity": 0.75, "init_method": "topk"},
    "static_checkerboard": {**STATIC, "init_method": "checkerboard"},
    "static_from_zeros": {**STATIC, "init_method": "from_zeros"},
    "gmp_linear": {**GMP, "schedule": GROWING},
    "gmp_exp": {**GMP, "schedule": {"type": "exp", "init": 0.25, "gamma": 0.5}},
    "gmp_until": {**GMP, "schedule": GROWING, "update": {"freq": 1, "start": 1, "stop": 3}},
    "rigl": RIGL,
    "rigl_out_groups": {**RIGL, "balance_out_groups": 4},
    "rigl_small_groups": {
        **RIGL,
        "balance_out_groups": 2,
        "param_filter": "*families.rigl_small_groups.*",
    },
    "rigl_in_groups": {**RIGL, "balance_in_groups": 4},
    "set": {**RIGL, "algorithm": "set"},
}
SPARSITY = [
    {"param_filter": f"*families.{name}.*fc?.weight", **options}
    for name, options in ALGORITHMS.items()
]


class Masked(nn.Module):
    """A perceptron whose matrices are masked, and whose biases are in small groups."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = Mlp()

    def forward(self, batch: Batch):
        return F.cross_entropy(self.mlp(batch["features"]).float(), batch["label"].long())


features, label = VECTORS.fields
MASKS = {
    name: Family(build=Masked, fields={"features": features, "label": label}) for name in ALGORITHMS
}
