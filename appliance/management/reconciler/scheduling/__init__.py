"""The scheduler's view of the queue and its decisions, as the reconciler uses them."""
