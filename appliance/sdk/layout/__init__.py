"""`SdkLayout`: a program laid out in Python, of rectangles of PEs with ports between them.

`sdk_layout` collects what the program says. Its `compile` finds places (`region_places`), paths
between ports (`paths`) and numbers of colors (`colors`), and writes a layout in CSL (`csl_text`),
which the compiler takes like any other.
"""
