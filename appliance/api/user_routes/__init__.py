"""Routes about users and logins."""
