"""Models to measure with, and the real client's programs for them."""
