"""How the samples of a share are divided: among threads, and over micro-batches."""
