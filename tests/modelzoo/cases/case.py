"""What one case is, and the parts that many have in common."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VOCAB, WIDTH, LENGTH = 64, 64, 16
"""Heads have 16 elements, so that their scale, a 16-bit constant of the program, is exact."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One configuration.

    Attributes:
        name: Family and what is special, as in `gpt2/alibi`.
        model: Section `init.model` of the trainer's configuration.
        fields: Fields of a batch (see `batches.py`).
        init: Other sections of `init`.
        eval_steps: Batches to evaluate after training.
        train_steps: Steps to train.
        batch_size: Global batch.
        tolerance: Largest relative difference of a loss.
        because: Why the tolerance is not 1e-4: the 16-bit constant in the program.
        exact_tolerance: Largest difference with `--precision exact`; 0 for that of the format.
        wide: The model casts to the 16-bit type by itself, which the CPU backend does not follow;
            there that type is float32.
        by_sorting: The CPU backend chooses masks by sorting, as the traced program does; otherwise
            it chooses others of the weights that tie.
        convert: The model's conversion from the Hugging Face format (see `conversion.py`).
        data: Section of a data processor that makes the batches, in place of `fields`; a path in
            it begins with `{corpus}`.
        generate: What is generated instead of trained (see `harness.py`).
        workers: Input workers of a system.
        systems: Most systems to run on.
        refused: A part of the client's message where it cannot trace the case.
    """

    name: str
    model: Mapping[str, Any]
    fields: Mapping[str, Any]
    init: Mapping[str, Any] = field(default_factory=dict)
    eval_steps: int = 0
    train_steps: int = 3
    batch_size: int = 4
    tolerance: float = 1e-4
    because: str = ""
    exact_tolerance: float = 0.0
    wide: bool = False
    by_sorting: bool = False
    convert: Mapping[str, Any] | None = None
    data: Mapping[str, Any] | None = None
    generate: Mapping[str, Any] | None = None
    workers: int = 1
    systems: int = 2
    refused: str = ""

    def order(self) -> dict[str, Any]:
        """Return what the client's side needs."""
        precision = {"enabled": True, "fp16_type": "bfloat16", "max_gradient_norm": 1.0}
        return {
            "init": {"model": dict(self.model), "precision": precision, **self.init},
            "fields": self.fields,
            "eval_steps": self.eval_steps,
            "train_steps": self.train_steps,
            "batch_size": self.batch_size,
            "wide": self.wide,
            "by_sorting": self.by_sorting,
            "convert": self.convert,
            "data": self.data,
            "generate": self.generate,
            "workers": self.workers,
        }

    @property
    def digest(self) -> str:
        """Names what is run: another one for a case that has changed."""
        text = json.dumps(self.order(), sort_keys=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def ids(length: int = LENGTH, high: int = VOCAB) -> dict[str, Any]:
    """Return a field of token numbers."""
    return {"shape": [length], "high": high}


def ones(length: int = LENGTH) -> dict[str, Any]:
    """Return a field of ones."""
    return {"shape": [length], "value": 1}


def lengths(length: int = LENGTH) -> dict[str, Any]:
    """Return a mask of at least half the places."""
    return {"shape": [length], "lengths": [length // 2, length]}


TOKENS = {
    "input_ids": ids(),
    "attention_mask": lengths(),
    "labels": {"like": "input_ids", "shift": 1},
}
"""A batch of a language model."""
