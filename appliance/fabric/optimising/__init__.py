"""From the typed program to one that does the same in fewer cycles.

registers  what instructions read and write, and the same with other operands
inlining   small functions in place of their calls
folding    results that are known, and copies
values     within a block: what is computed or loaded twice
loops      what is the same in every round of a loop, moved in front of it
elements   accesses to elements of arrays as one instruction
unused     what nobody reads
functions  all of these in their order

What others can see (DSD operations, tasks, services, stores) stays, in its order; only scalar code
changes (docs/decisions/0186).
"""
