"""What every operation means: a slow reference and the fast kernels that agree with it."""
