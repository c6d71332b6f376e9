"""The samples by name."""

from __future__ import annotations

from dataclasses import dataclass, replace

from models import GPT, MLP, RECIPES, classify_with_logits
from recipes import Recipe


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A recipe that is traced and run for a few steps."""

    recipe: Recipe
    num_steps: int = 3
    training: bool = True
    is_random: bool = False
    """The program draws random numbers, so the CPU backend's outputs are not comparable."""


SAMPLES: dict[str, Sample] = {name: Sample(recipe=recipe) for name, recipe in RECIPES.items()}
SAMPLES["dropout"] = replace(SAMPLES["dropout"], is_random=True)
SAMPLES["gpt_adamw"] = replace(SAMPLES["gpt_adamw"], num_steps=6)
SAMPLES["dynamic_loss_scale"] = replace(SAMPLES["dynamic_loss_scale"], num_steps=8)
SAMPLES |= {
    "mlp_eval": Sample(recipe=MLP(), training=False),
    "mlp_eval_beside_optimizer": Sample(recipe=RECIPES["mlp_momentum"], training=False),
    "cnn_eval": Sample(recipe=RECIPES["cnn_bn_pool"], training=False),
    "gpt_eval": Sample(recipe=GPT(), training=False),
    "mlp_with_logits": Sample(recipe=replace(RECIPES["mlp_sgd"], outputs=classify_with_logits)),
}
