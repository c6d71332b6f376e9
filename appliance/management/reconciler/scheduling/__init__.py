"""The scheduler's view of the queue, and what it decides, as the reconciler uses them."""
