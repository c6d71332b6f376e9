"""Paths of the REST port that have no rule, since they give everybody the same answer."""

PAGES = ("GET /api/v1/openapi.json", "GET /assets/*", "GET /*")
"""The interface's description, and the dashboard's program: files that come with the appliance."""
