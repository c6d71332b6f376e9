"""A simulated CS-2: holds activations, takes in one layer step's weights after the other."""
