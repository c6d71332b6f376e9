"""The samples by name."""

from __future__ import annotations

from dataclasses import replace

from models import GPT, MLP, RECIPES, classify_with_logits

from catalog.layers import ATTENTION, CONVOLUTIONS, NORMALISATION, POOLING, RANDOM
from catalog.losses import LOSSES
from catalog.omissions import OMISSIONS
from catalog.optimizers import TRAINING
from catalog.pointwise import POINTWISE
from catalog.reductions import PRODUCTS, REDUCTIONS
from catalog.routing import ROUTING
from catalog.sample import Sample
from catalog.shapes import INDEXING, MOVEMENT

MODELS: dict[str, Sample] = {name: Sample(recipe=recipe) for name, recipe in RECIPES.items()}
MODELS["dropout"] = replace(MODELS["dropout"], without_numbers=True)
MODELS["gpt_adamw"] = replace(MODELS["gpt_adamw"], num_steps=6)
MODELS["dynamic_loss_scale"] = replace(MODELS["dynamic_loss_scale"], num_steps=8)
MODELS |= {
    "mlp_eval": Sample(recipe=MLP(), training=False),
    "mlp_eval_beside_optimizer": Sample(recipe=RECIPES["mlp_momentum"], training=False),
    "cnn_eval": Sample(recipe=RECIPES["cnn_bn_pool"], training=False),
    "gpt_eval": Sample(recipe=GPT(), training=False),
    "mlp_with_logits": Sample(recipe=replace(RECIPES["mlp_sgd"], outputs=classify_with_logits)),
}

FAMILIES: dict[str, dict[str, Sample]] = {
    "model": MODELS,
    "op": POINTWISE | REDUCTIONS | PRODUCTS | MOVEMENT | INDEXING | ROUTING,
    "layer": CONVOLUTIONS | POOLING | NORMALISATION | ATTENTION | RANDOM,
    "loss": LOSSES,
    "omit": OMISSIONS,
    "train": TRAINING,
}

SAMPLES: dict[str, Sample] = {
    (name if family == "model" else f"{family}.{name}"): sample
    for family, samples in FAMILIES.items()
    for name, sample in samples.items()
}
