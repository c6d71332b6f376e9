"""From the typed program to byte code.

frames      slots of a code class
emitter     instructions and their costs
body        operands of one function
scalars     arithmetic, conversions, memory
vectors     DSD operations, DSRs, `@map`
functions   blocks, calls, branches, services
call_graph  which functions can call each other in a circle
classes     a whole code class as the kernel reads it
"""
