"""`cs_debug`: stops a program on the simulated fabric, and shows what its PEs hold and do.

targets    a run, or a core file: where memory and states come from
commands   what one types: breakpoints, steps, memory, states
session    the run that waits for commands, between two cycles
launcher   the command line
"""
