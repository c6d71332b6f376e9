"""The web pages: built files, and how browsers get them; they use the REST API alone."""
