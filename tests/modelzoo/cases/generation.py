"""Greedy generation through the Model Zoo's evaluation harness, with prompts of mixed lengths."""

from __future__ import annotations

from typing import Any

from tests.modelzoo.cases.case import VOCAB, Case
from tests.modelzoo.cases.language import GPT, LLAMA

LENGTH = 96
START = VOCAB - 1


def generated(name: str, family: str, *, stop: tuple[str, ...] = (), **options: Any) -> Case:
    """Return a case of a decoder that generates up to 64 tokens for each prompt."""
    model = {
        "name": family,
        **GPT,
        "max_position_embeddings": LENGTH,
        "initializer_range": 0.5,
        "start_token": START,
        "max_tokens": 64,
        **options,
    }
    generation = {
        "prompts": [8, 5, 12, 30],
        "stop": list(stop),
        "tokens": 64,
        "length": LENGTH,
        "start": START,
        "batch_size": 4,
    }
    return Case(name=f"generate/{name}", model=model, fields={}, train_steps=0, generate=generation)


GENERATION = [
    generated("gpt2", "gpt2"),
    generated("llama", "llama", **LLAMA),
    generated("gpt2_stops", "gpt2", stop=("w7", "w20")),
]
