"""The web pages; they talk to the REST API only."""
