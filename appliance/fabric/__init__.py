"""The simulated fabric: processing elements, routers and cycles.

bytecode     numbers that Python and the kernel share
native       the kernel: C sources and LLVM bitcode
lowering     from the typed program to byte code
simulator    a program at work: commands of the host, results, reports
"""
