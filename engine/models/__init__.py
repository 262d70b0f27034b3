"""Finding, fetching, checking and reading models."""
