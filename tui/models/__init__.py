"""Choosing a model: the picker, what it says of each, and fetching one while the chat goes on."""
