"""How a coordinator receives and computes the initial weights."""
