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
    without_numbers: bool = False
    """The CPU backend's outputs are not comparable: random ops, or the client fails there."""
    tolerance: float = 0.0
    """Relative difference to expect, where the client replaces a function by an approximation."""
    lost: str = ""
    """What the client leaves out of the program, so that it cannot give the CPU's numbers."""
