"""The wafer simulator: how many clock cycles the real wafer would have taken, as pure functions.

Start with `machine` (what a system is), `operations` (what it is asked to do), `kernels` (cycles of
one operation), `layer_timing` (a whole step) and `planner` (what a user asks). Every time that
comes out of this package is *simulated*.
"""
