"""A run directory as a folder: who owns it, whose files are in it, what it may be called."""

__all__: list[str] = []
