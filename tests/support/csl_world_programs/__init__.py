"""Programs of our own over libraries of others, run by `csl_world`."""
