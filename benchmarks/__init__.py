"""Measurements of the appliance, each a program of its own."""
