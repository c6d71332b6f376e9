"""Products with sparse matrices in machine code: C sources, the bitcode made from them, their use.

products.h       vectors, and the records that Python passes
products.c       packing, the product, the sampled product, the transposition
build            to bitcode, committed beside a digest of the sources
native_calls     to machine code of this processor; calls on one thread or a team
"""
