"""Answers of pip that are kept; see `__main__`."""
