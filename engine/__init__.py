"""Inference. Imports no user interface; `import cutaway.engine` imports no torch."""
