"""Stopping the simulated fabric, and looking at what PEs hold and wait for."""
