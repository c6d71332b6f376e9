"""The specs and options of pods: their identity, and the settings of each role."""
