"""From what a mask lets through to the whole tensor, and back."""
