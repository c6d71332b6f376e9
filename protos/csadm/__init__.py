"""The client's wire: sessions, system status and maintenance."""
