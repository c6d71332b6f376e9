"""What one sample is."""

from __future__ import annotations

from dataclasses import dataclass

from recipes import Recipe


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A recipe that is traced and run for a few steps."""

    recipe: Recipe
    num_steps: int = 3
    training: bool = True
    is_random: bool = False
    """The program draws random numbers, so the CPU backend's outputs are not comparable."""
