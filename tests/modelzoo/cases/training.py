"""Optimizers, schedules and formats, on one small decoder."""

from __future__ import annotations

from typing import Any

from tests.modelzoo.cases.case import TOKENS, Case
from tests.modelzoo.cases.language import GPT

MODEL = {"name": "gpt2", **GPT}


REFUSED = {"optimizer/Muon": "_zeropower_via_newtonschulz5() got multiple values"}
"""The client's own message, on either backend."""


def trained(name: str, **init: Any) -> Case:
    """Return a case of the small decoder with other sections of `init`."""
    refused = REFUSED.get(name, "")
    return Case(name=name, model=MODEL, fields=TOKENS, init=init, refused=refused)


OPTIMIZERS = {
    "ASGD": {"lr": 0.01},
    "Adadelta": {"lr": 1.0},
    "Adafactor": {"lr": 0.01, "relative_step": False},
    "Adagrad": {"lr": 0.01},
    "Adam": {"lr": 0.001},
    "AdamW": {"lr": 0.001, "weight_decay": 0.125},
    "Adamax": {"lr": 0.001},
    "Lamb": {"lr": 0.001},
    "Lion": {"lr": 0.001},
    "Muon": {"lr": 0.001},
    "NAdam": {"lr": 0.001},
    "RAdam": {"lr": 0.001},
    "RMSprop": {"lr": 0.001},
    "Rprop": {"lr": 0.001},
    "SGD": {"lr": 0.05, "momentum": 0.875},
}
FROM = {"initial_learning_rate": 0.0625}
SCHEDULES: dict[str, dict[str, Any]] = {
    "ConstantLR": {"learning_rate": 0.0625, "total_iters": 4},
    "PolynomialLR": {**FROM, "end_learning_rate": 0.0, "total_iters": 4, "power": 2.0},
    "LinearLR": {**FROM, "end_learning_rate": 0.0, "total_iters": 4},
    "ExponentialLR": {**FROM, "total_iters": 4, "decay_rate": 0.5},
    "InverseExponentialTimeDecayLR": {
        **FROM,
        "step_exponent": 1,
        "total_iters": 4,
        "decay_rate": 0.5,
    },
    "InverseSquareRootDecayLR": {**FROM, "warmup_steps": 2},
    "CosineDecayLR": {**FROM, "end_learning_rate": 0.0, "total_iters": 4},
    "SequentialLR": {
        "schedulers": [
            {
                "LinearLR": {
                    "initial_learning_rate": 0.0,
                    "end_learning_rate": 0.0625,
                    "total_iters": 2,
                }
            },
            {"CosineDecayLR": {**FROM, "end_learning_rate": 0.0, "total_iters": 4}},
        ]
    },
    "PiecewiseConstantLR": {"learning_rates": [0.0625, 0.125], "milestones": [2]},
    "MultiStepLR": {**FROM, "gamma": 0.5, "milestones": [1, 2]},
    "StepLR": {**FROM, "step_size": 1, "gamma": 0.5},
    "CosineAnnealingLR": {**FROM, "T_max": 4},
    "LambdaLR": {**FROM},
    "CosineAnnealingWarmRestarts": {**FROM, "T_0": 2},
    "MultiplicativeLR": {**FROM, "coefficient": 0.5},
    "ChainedLR": {
        "schedulers": [
            {"ExponentialLR": {**FROM, "total_iters": 4, "decay_rate": 0.5}},
            {"StepLR": {**FROM, "step_size": 1, "gamma": 0.5}},
        ]
    },
    "CyclicLR": {"base_lr": 0.03125, "max_lr": 0.0625, "step_size_up": 2},
    "OneCycleLR": {**FROM, "max_lr": 0.125, "total_steps": 4},
    "ScalePerParamLR": {
        "scheduler": {"LinearLR": {**FROM, "end_learning_rate": 0.0, "total_iters": 4}}
    },
}
PRECISIONS = {
    "float16": {"fp16_type": "float16", "loss_scaling_factor": 1.0},
    "float16_dynamic": {"fp16_type": "float16", "loss_scaling_factor": "dynamic"},
    "cbfloat16_dynamic": {"fp16_type": "cbfloat16", "loss_scaling_factor": "dynamic"},
    "bfloat16_level_1": {"fp16_type": "bfloat16", "precision_opt_level": 1},
    "no_clipping": {"fp16_type": "bfloat16"},
    "clipped_by_value": {"fp16_type": "bfloat16", "max_gradient_value": 0.0625},
}

TRAINING = [
    *(trained(f"optimizer/{name}", optimizer={name: o}) for name, o in OPTIMIZERS.items()),
    *(
        trained(
            f"schedule/{name}",
            optimizer={"SGD": {"lr": 0.05, "momentum": 0.0}},
            schedulers=[{name: options}],
        )
        for name, options in SCHEDULES.items()
    ),
    *(
        trained(f"precision/{name}", precision={"enabled": True, **options})
        for name, options in PRECISIONS.items()
    ),
]
