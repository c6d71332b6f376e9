"""The tables, as SQLAlchemy sees them."""
