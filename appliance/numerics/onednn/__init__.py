"""Operations computed by oneDNN, with results and scratch space in memory that we provide.

PyTorch contains oneDNN, but its calls allocate their results, which fragments the heap. The choice
of library depends on the processor and the layout only, never on a measurement, so that a machine
gives the same bits in every run. oneDNN uses the OpenMP library that PyTorch has loaded, and so its
number of threads.
"""
