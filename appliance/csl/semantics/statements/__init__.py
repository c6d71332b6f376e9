"""Evaluation of statements, branches, loops and calls."""
