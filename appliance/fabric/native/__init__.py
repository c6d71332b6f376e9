"""The fabric's kernel: C sources, the bitcode made from them, and its loader."""
