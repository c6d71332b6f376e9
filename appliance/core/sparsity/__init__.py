"""Tensors that are mostly zero: where they are not, and how that is written down."""
