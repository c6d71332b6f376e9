"""Cycle counts of CSL programs that others published, and programs of ours for the same work."""
