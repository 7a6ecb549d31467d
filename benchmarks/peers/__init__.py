"""The six hostile calls and the speed of a batch, through Spindle and other libraries; open `__main__.py` first."""
