"""The tree of commands, their flags, and how one is run."""
