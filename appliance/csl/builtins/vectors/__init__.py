"""Builtins for vector operations: DSDs, DSRs, FIFOs, `@map`, and what they operate on."""
