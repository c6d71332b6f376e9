"""Every algorithm of the client's sparsity, every distribution and schedule, on one small decoder.

A sparse weight is a weight and a mask in the program; these cases ask for its numbers.
"""

from __future__ import annotations

from typing import Any

from tests.modelzoo.cases.case import TOKENS, Case
from tests.modelzoo.cases.language import GPT, LLAMA

EACH_STEP = {"freq": 1}
STATIC = {"algorithm": "static", "sparsity": 0.5}
GMP = {"algorithm": "gmp", "update": EACH_STEP}
SET = {"algorithm": "set", "sparsity": 0.5, "update": EACH_STEP, "drop_fraction": 0.25}
RIGL = {**SET, "algorithm": "rigl"}
GROWING = {"type": "linear", "init": 0.25, "slope": 0.125}
SPARSITIES: dict[str, dict[str, Any]] = {
    "static": STATIC,
    "static_90": {**STATIC, "sparsity": 0.9},
    "static_topk": {**STATIC, "init_method": "topk"},
    "static_checkerboard": {**STATIC, "init_method": "checkerboard"},
    "static_from_zeros": {**STATIC, "init_method": "from_zeros"},
    "gmp_linear": {**GMP, "schedule": GROWING},
    "gmp_exp": {**GMP, "schedule": {"type": "exp", "init": 0.25, "gamma": 0.5}},
    "gmp_power": {**GMP, "schedule": {"type": "power", "init": 0.5, "beta": 0.5}},
    "gmp_cosine": {**GMP, "schedule": {"type": "cosine", "init": 0.25, "half_period": 4}},
    "gmp_cycling": {**GMP, "schedule": {"type": "cycling", "values": [0.25, 0.5, 0.75]}},
    "gmp_at_steps": {**GMP, "schedule": GROWING, "update": [1, 3]},
    "gmp_until": {**GMP, "schedule": GROWING, "update": {"freq": 1, "start": 1, "stop": 3}},
    "set": SET,
    "rigl": RIGL,
    "rigl_cosine": {**RIGL, "drop_fraction": {"type": "cosine", "init": 0.5, "half_period": 4}},
    "rigl_out_groups": {**RIGL, "balance_out_groups": 4},
    "rigl_in_groups": {**RIGL, "balance_in_groups": 4},
}
BY_GROUP = [
    {"param_filter": "*ffn*weight", **STATIC, "sparsity": 0.75},
    {"param_filter": "*self_attn*weight", **RIGL},
]


REFUSED = {"gmp_at_steps": "name 'schedule' is not defined"}
"""The client's own message, on either backend."""

TIES = {"gmp_power", "gmp_cosine", "gmp_cycling", "rigl_cosine"}
"""Weights come back from among those that are zero, and so alike, as the sparsity falls."""

DRAWN = {
    "tolerance": 1e-2,
    "because": "SET draws what it grows again, and no two backends draw alike",
}


def sparse(
    name: str, *groups: dict[str, Any], optimizer: str = "AdamW", family: str = "gpt2", **model: Any
) -> Case:
    """Return a case of a sparse decoder."""
    return Case(
        name=f"sparsity/{name}",
        model={"name": family, **GPT, **model},
        fields=TOKENS,
        init={"optimizer": {optimizer: {"lr": 0.001}}, "sparsity": list(groups)},
        train_steps=5,
        eval_steps=1,
        refused=REFUSED.get(name, ""),
        by_sorting=name in TIES,
        **(DRAWN if name == "set" else {}),
    )


SPARSITY = [
    *(
        sparse(name, options, optimizer="SGD" if name in TIES else "AdamW")
        for name, options in SPARSITIES.items()
    ),
    sparse("by_group", *BY_GROUP),
    sparse("llama_rigl", RIGL, family="llama", **LLAMA),
    *(sparse(f"rigl_{name}", RIGL, optimizer=name) for name in ("SGD", "Lamb")),
]
