"""The terminal: command line, screens and panels. Imports no torch."""
