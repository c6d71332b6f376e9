"""Weights that a program masks: how they are found, and what is done with their non-zeros alone."""
