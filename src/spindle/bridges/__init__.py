"""Bridges to models and frameworks: wire shapes in and out, one dialect a file.

Start at `definitions.py` (what a model is told), then any dialect such as `openai_chat.py` (what it asks for, and what
it is answered). `openai.py`, `anthropic.py` and `gemini.py` hold the ready executor callbacks.
"""
