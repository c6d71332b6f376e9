"""Notification of changes to streams and followers."""
