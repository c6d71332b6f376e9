"""Builtins that put a program together: code of PEs, imported modules, exported symbols."""
