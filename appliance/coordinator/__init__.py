"""The coordinator of one job: compiles its program and runs it for the client."""
