"""Autoregressive generation: a loop over positions in place of one step for each batch."""
