"""The client's wire: what csctl lists and changes."""
