"""Alembic's scripts: every schema that was shipped, in order."""
