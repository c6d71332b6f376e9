"""The wire of the SDK's client: sources and artifacts, commands, and a runtime driven from afar."""
