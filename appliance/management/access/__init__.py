"""Identity and access: accounts, tokens, secrets and certificates."""
