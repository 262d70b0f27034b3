"""The tour: one request from prompt to streamed tokens, in chapters that run on the real engine.

A chapter is data (`chapters/NAME.toml`) and a script (`chapters/NAME.py`): see `chapter.py`. `progress.py` knows where
the reader is, `stage.py` drives the engine, `screen.py` draws both, and `recorded.py` stands in for a model.
"""
