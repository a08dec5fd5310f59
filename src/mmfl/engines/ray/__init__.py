"""The Ray engine: workers on any number of machines."""

__all__: list[str] = []
