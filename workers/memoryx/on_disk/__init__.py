"""State larger than memory: where it lies, when its pages move, and whether the disk kept it."""
