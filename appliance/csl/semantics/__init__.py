"""What the tree means: types, values known at compile time, and code for the rest.

One engine walks the tree. Where a value is known it computes it, where it is not it emits
instructions; so a condition that is known removes the other side before its names are looked
up, and the same function serves at compile time and at run time. Analysis is lazy: a global
is evaluated, and a function compiled, when something that runs needs it.
"""
