"""The program text's grammar: cursor, types, attributes, locations; nothing about operations."""
