"""Users, tokens, the audit trail, and what users are told."""
