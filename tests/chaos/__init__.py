"""The whole-system fault bench: real processes, seeded faults, a promise for each."""
