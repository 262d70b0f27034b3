"""What `cutaway doctor` looks at: one module a part of the world, each making findings. Imports no torch."""
