"""The intermediate representation: graphs of typed operations, their text and their shapes."""
