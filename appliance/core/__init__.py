"""The domain: ids, tensors, graphs, plans, jobs and errors; no I/O and no clock of its own."""
