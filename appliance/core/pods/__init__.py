"""What pods are told: who they are, and how each role does its work."""
