"""The timing model: what operations and whole steps cost, in clock cycles and in memory."""
