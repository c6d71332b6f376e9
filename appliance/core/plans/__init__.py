"""What the compiler makes of a program, and what shards and micro-batches follow from it."""
