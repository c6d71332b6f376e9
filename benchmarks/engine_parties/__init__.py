"""Everyone who trains the same model in the engine benchmark, resident and driven by a pipe."""
