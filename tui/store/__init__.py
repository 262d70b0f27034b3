"""Chats on disk: SQLite in the data folder. Read `schema.py`, then `records.py`, then `chats.py`."""
