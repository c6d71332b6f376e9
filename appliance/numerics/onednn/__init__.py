"""What oneDNN computes for us: into memory that it is told, working in memory that it is given.

PyTorch has a oneDNN of its own inside, but its calls return memory of their own, which leaves holes
in the heap. Which library computes depends on the processor alone and never on a measurement, so
that a machine gives the same bits in every run. oneDNN uses the OpenMP library that PyTorch has
loaded, and so the number of threads that PyTorch was told to use.
"""
