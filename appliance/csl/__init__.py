"""The CSL compiler: source text to a typed intermediate program, without I/O.

Sources come through a loader that the caller passes in. The intermediate program
(`appliance.csl.program`) is what the fabric simulator executes; it is written to a file as
plain JSON and read back by another process.
"""
