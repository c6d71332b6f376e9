"""The model families of the Model Zoo's table, as small plain programs of our own.

A program trains several families at once: each has parameters, inputs and a loss of its own, and
the loss that is trained on is their sum. So one compile and one job test them all, and the loss
that differs says which family is wrong.
"""

from __future__ import annotations

from models import adamw, optimizer
from recipes import Recipe

from families.decoders import DECODERS
from families.encoders import ENCODERS
from families.images import IMAGES
from families.masks import MASKS, SPARSITY
from families.together import together
from families.tuning import TUNING, groups_by_width

PLAIN = optimizer("SGD", lr=0.05, momentum=0.9)
"""AdamW makes as much of a gradient that is rounding alone as of any other: no two runs agree."""

FAMILIES: dict[str, Recipe] = {
    "decoder_families": together(DECODERS, optimizer=PLAIN),
    "encoder_families": together({**ENCODERS, **IMAGES}, optimizer=PLAIN),
    "tuning_families": together(TUNING, optimizer=groups_by_width),
    "mask_families": together(MASKS, optimizer=adamw, sparsity=SPARSITY),
}
