"""Who calls and what they may do: accounts, tokens, secrets and certificates."""
