"""Connections that are accepted: whose they are, how many, and where they are passed on."""
