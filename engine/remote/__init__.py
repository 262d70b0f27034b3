"""The remote core: vLLM, or any OpenAI-compatible server, behind the engine's own protocol. No torch, no transformers.

Read `serving.py` first. Everything the panels draw is what the server said, or what was measured on this side of the
connection; what a server does not tell is named in the model card.
"""
