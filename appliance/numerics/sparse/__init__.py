"""Products with weights that are mostly zero: values, and where they are, instead of a matrix.

matrices         a sparse matrix, its pattern, the same by columns
sparse_products  activations times a matrix; a weight's gradient where the weight is not zero
native           the machine code of both
"""
