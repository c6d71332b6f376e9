"""Regions of elementwise nodes as one loop in machine code.

A traced optimizer is a chain of twenty small operations on tensors as large as the weights. Run
one after the other each of them goes through memory; as one loop, every element is read once and
written once. `regions` finds such chains, `llvm_text` writes the loop, `machine_code` has LLVM
compile it for the processor at hand. Nothing is contracted or reordered, and what is rounded to a
16-bit format between the nodes is so in the loop, so that it gives the bits that the nodes give one
by one, save for the functions in `functions`.
"""
