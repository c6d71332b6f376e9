"""How a coordinator compiles a program, or takes it from the cache."""
