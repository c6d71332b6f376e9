"""Traces of the fabric: what the kernel has recorded, in memory and as a file."""
