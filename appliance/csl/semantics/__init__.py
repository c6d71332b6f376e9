"""Evaluation of the syntax tree: known values are computed, everything else becomes instructions.

One evaluator serves compile time and run time. Where a value is known it is computed; where it is
not, instructions are emitted. So a condition that is known removes its other branch before the
names there are looked up. Evaluation is lazy: a global is evaluated, and a function compiled, when
something that runs needs it.

    results      the layout and the code of PEs, collected
    statements   statements, branches, loops and calls
    expressions  expressions and global names
    context      session, module, frame, function being compiled
    values       types, values, variables

Each package imports only those below it.
"""
