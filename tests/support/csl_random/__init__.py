"""Random programs in CSL with a plain model of what they compute."""
