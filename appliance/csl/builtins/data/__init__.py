"""Builtins for values: conversions, arrays, strings, and questions about types."""
