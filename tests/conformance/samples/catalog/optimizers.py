"""Samples of optimizers, schedules, grad scalers and 16-bit formats, on one small MLP."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import cerebras.pytorch as cstorch
import torch
from data import Field, Samples
from models import MLP, RECIPES, classify, optimizer

from catalog.sample import Sample

SGD = partial(optimizer, "SGD", lr=0.1)


def by(name: str, **options) -> Sample:
    """Return the MLP trained with one of the client's optimizers."""
    return Sample(recipe=MLP(optimizer=optimizer(name, **options)))


def muon_for_matrices(named_parameters):
    """Muon takes matrices only, so the biases are not trained. The CPU backend cannot run it."""
    return cstorch.optim.Muon([p for _, p in named_parameters if p.dim() > 1], lr=0.02)


def classify_f32(model, batch):
    """Cross entropy of class labels, with features of any format."""
    features, labels = batch
    return classify(model, (features.float(), labels))


OPTIMIZERS = {
    "sgd_nesterov": by("SGD", lr=0.1, momentum=0.9, nesterov=True),
    "sgd_dampening_maximize": by("SGD", lr=0.1, momentum=0.9, dampening=0.5, maximize=True),
    "adam": by("Adam", lr=0.01),
    "adam_amsgrad": by("Adam", lr=0.01, amsgrad=True),
    "adam_l2": by("Adam", lr=0.01, weight_decay=0.1),
    "adamw": by("AdamW", lr=0.01, weight_decay=0.1),
    "adamw_no_bias_correction": by("AdamW", lr=0.01, correct_bias=False),
    "adamw_amsgrad": by("AdamW", lr=0.01, weight_decay=0.1, amsgrad=True),
    "adamax": by("Adamax", lr=0.01),
    "adadelta": by("Adadelta", lr=1.0),
    "adafactor": by("Adafactor", lr=0.01),
    "adafactor_unscaled": by("Adafactor", lr=0.01, scale_parameter=False),
    "adagrad": by("Adagrad", lr=0.1, lr_decay=0.1),
    "asgd": by("ASGD", lr=0.1, t0=1.0),
    "lamb": by("Lamb", lr=0.01, weight_decay=0.1),
    "lion": by("Lion", lr=0.01, weight_decay=0.1),
    "nadam": by("NAdam", lr=0.01),
    "radam": by("RAdam", lr=0.01),
    "rmsprop": by("RMSprop", lr=0.01),
    "rmsprop_centered_momentum": by("RMSprop", lr=0.01, centered=True, momentum=0.9, eps=1e-3),
    "rprop": by("Rprop", lr=0.01),
    "muon": Sample(recipe=MLP(optimizer=muon_for_matrices), without_numbers=True),
}


def scheduled(name: str, **options) -> Sample:
    """Return the MLP trained with SGD under one of the client's schedules, for six steps."""
    make = getattr(cstorch.optim.lr_scheduler, name)
    recipe = MLP(optimizer=SGD(), scheduler=lambda opt: make(opt, **options))
    return Sample(recipe=recipe, num_steps=6)


def chained(opt):
    """Two schedules whose factors multiply."""
    schedules = cstorch.optim.lr_scheduler
    first = schedules.ExponentialLR(opt, 0.1, total_iters=2, decay_rate=0.5)
    return schedules.ChainedScheduler([first, schedules.LinearLR(opt, 0.1, 0.01, total_iters=4)])


SCHEDULES = {
    "lr_constant": scheduled("ConstantLR", learning_rate=0.05),
    "lr_linear": scheduled(
        "LinearLR", initial_learning_rate=0.1, end_learning_rate=0.01, total_iters=4
    ),
    "lr_polynomial_cycle": scheduled(
        "PolynomialLR",
        initial_learning_rate=0.1,
        end_learning_rate=0.01,
        total_iters=2,
        cycle=True,
    ),
    "lr_exponential": scheduled(
        "ExponentialLR", initial_learning_rate=0.1, total_iters=2, decay_rate=0.5
    ),
    "lr_exponential_staircase": scheduled(
        "ExponentialLR", initial_learning_rate=0.1, total_iters=2, decay_rate=0.5, staircase=True
    ),
    "lr_inverse_time": scheduled(
        "InverseExponentialTimeDecayLR",
        initial_learning_rate=0.1,
        step_exponent=2,
        total_iters=3,
        decay_rate=0.5,
    ),
    "lr_inverse_sqrt": scheduled(
        "InverseSquareRootDecayLR", initial_learning_rate=0.1, scale=0.25, warmup_steps=2
    ),
    "lr_cosine_decay": scheduled(
        "CosineDecayLR", initial_learning_rate=0.1, end_learning_rate=0.01, total_iters=4
    ),
    "lr_cosine_annealing": scheduled(
        "CosineAnnealingLR", initial_learning_rate=0.1, T_max=4, eta_min=0.01
    ),
    "lr_cosine_warm_restarts": scheduled(
        "CosineAnnealingWarmRestarts", initial_learning_rate=0.1, T_0=3
    ),
    "lr_piecewise": scheduled(
        "PiecewiseConstantLR", learning_rates=[0.1, 0.05, 0.01], milestones=[2, 4]
    ),
    "lr_multi_step": scheduled(
        "MultiStepLR", initial_learning_rate=0.1, gamma=0.5, milestones=[2, 4]
    ),
    "lr_step": scheduled("StepLR", initial_learning_rate=0.1, step_size=2, gamma=0.5),
    "lr_cyclic": scheduled("CyclicLR", base_lr=0.01, max_lr=0.1, step_size_up=2),
    "lr_one_cycle": scheduled("OneCycleLR", initial_learning_rate=0.01, max_lr=0.1, total_steps=6),
    "lr_chained": Sample(recipe=MLP(optimizer=SGD(), scheduler=chained), num_steps=6),
    "wd_linear": Sample(
        recipe=MLP(
            optimizer=optimizer("SGD", lr=0.1, weight_decay=0.1),
            scheduler=lambda opt: cstorch.optim.weight_decay_scheduler.LinearWD(
                opt, initial_val=0.1, end_val=0.0, total_iters=4
            ),
        ),
        num_steps=6,
    ),
}

OVERFLOWS_ONCE = Samples(fields=MLP(optimizer=None).dataset.fields, overflowing=range(4, 8))

SCALERS = {
    "static_loss_scale": Sample(
        recipe=MLP(optimizer=SGD(), grad_scaler={"loss_scale": 128.0}, max_gradient_norm=0.5)
    ),
    "grad_scaler_off": Sample(
        recipe=MLP(optimizer=SGD(), grad_scaler={"loss_scale": 1.0}, max_gradient_norm=0.5)
    ),
    "dynamic_loss_scale_tolerance": Sample(
        recipe=MLP(
            dataset=OVERFLOWS_ONCE,
            optimizer=optimizer("SGD", lr=0.1, momentum=0.9),
            scheduler=lambda opt: cstorch.optim.lr_scheduler.LinearLR(opt, 0.1, 0.01, 4),
            grad_scaler={
                "loss_scale": "dynamic",
                "init_scale": 2.0**100,
                "max_loss_scale": 2.0**100,
                "overflow_tolerance": 0.75,
            },
        ),
        num_steps=6,
    ),
    "clip_norm_loose": Sample(recipe=MLP(optimizer=SGD(), max_gradient_norm=1e3)),
}

LABELS_64 = Samples(fields=(Field(shape=(8,)), Field(kind="integers", high=4, dtype=torch.int64)))
FEATURES_16 = Samples(
    fields=(
        Field(shape=(8,), dtype=torch.float16),
        Field(kind="integers", high=4, dtype=torch.int16),
    )
)

FORMATS = {
    "mlp_float16": Sample(recipe=replace(RECIPES["mlp_sgd"], half_dtype="float16")),
    "mlp_bfloat16": Sample(recipe=replace(RECIPES["mlp_sgd"], half_dtype="bfloat16")),
    "mlp_cbfloat16": Sample(recipe=replace(RECIPES["mlp_sgd"], half_dtype="cbfloat16")),
    "mlp_labels_int64": Sample(recipe=MLP(dataset=LABELS_64, optimizer=SGD())),
    "mlp_features_float16": Sample(
        recipe=MLP(dataset=FEATURES_16, outputs=classify_f32, optimizer=SGD())
    ),
    "gpt_cbfloat16": Sample(recipe=replace(RECIPES["gpt_adamw"], half_dtype="cbfloat16")),
    "gpt_bfloat16": Sample(recipe=replace(RECIPES["gpt_adamw"], half_dtype="bfloat16")),
}

TRAINING = OPTIMIZERS | SCHEDULES | SCALERS | FORMATS
