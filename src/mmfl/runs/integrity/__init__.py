"""Whether a run directory is what was written into it: hashes, and who checks them."""

__all__: list[str] = []
