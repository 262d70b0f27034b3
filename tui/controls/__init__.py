"""The controls: sampling settings, the engine's switches, and what can be done to it."""
