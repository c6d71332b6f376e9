"""Durable state of management: tables, repositories, migrations."""
