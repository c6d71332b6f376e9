"""Run by Alembic: applies revisions on the connection that `Database.migrate` hands over."""

from alembic import context

from appliance.storage.schema.tables import Base

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
