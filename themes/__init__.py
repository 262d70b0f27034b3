"""Theme files: data only."""
