"""Our chapters: NAME.toml says what is told and compared, NAME.py drives the engine."""
