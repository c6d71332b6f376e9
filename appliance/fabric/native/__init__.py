"""The fabric's kernel: C sources, the bitcode made from them, and its loader.

machine.h        what a PE, a router and the machine are made of
cycle.h          one clock cycle of a band of rows: decide, move, let cores work
router.h         a wavelet's hop: which can move, and what its passing changes
routes.h         switch positions, teardown, filters, configuration registers
core.h           the one instruction a cycle: choice of tasks, of microthreads
microthreads.h   DSD operations that wait: operands, queues, FIFOs, elements
vector.h         what one element gives; operations over memory at once
interpreter.h    scalar byte code, `@map`
services.h       what libraries ask of the machine
wheel.h          which PEs are looked at in which cycle
bands.h, team.h  one thread for each band of rows, and their barrier
arena.h          memory of PEs, side by side
trace.h          the ring of events
numerics.h       numbers and 16-bit floats
kernel.c         PEs as they are first touched, and what Python calls
build, loader    to bitcode; to machine code of this processor
"""
