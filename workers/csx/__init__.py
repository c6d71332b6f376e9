"""A simulated CS-2: computes one layer at a time for its share of the batch."""
