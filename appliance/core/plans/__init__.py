"""The compiler's plan, and the shards and micro-batches that follow from it."""
