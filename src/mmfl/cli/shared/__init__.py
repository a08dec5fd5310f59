"""What commands share: options, the files that they write, streams, preconditions."""

__all__: list[str] = []
