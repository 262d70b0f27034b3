"""How long tests wait for what must come. It costs nothing when all goes well, and a busy machine may need it."""

PATIENCE = 60.0  # seconds
LONG = 240.0  # seconds, where a real model may have to be fetched, its kernels compiled and its weights converted first
