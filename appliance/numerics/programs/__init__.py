"""Programs: the nodes of a plan's part made ready to run again and again."""
