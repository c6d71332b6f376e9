"""Where Alembic finds the revisions of the schema."""

from importlib import resources

from alembic.config import Config


def revisions() -> Config:
    """Return Alembic's configuration."""
    config = Config()
    scripts = resources.files("appliance.storage") / "migrations"
    config.set_main_option("script_location", str(scripts))
    return config
