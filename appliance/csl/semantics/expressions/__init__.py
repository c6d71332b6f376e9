"""Evaluation of expressions, and of the global names that they mention."""
