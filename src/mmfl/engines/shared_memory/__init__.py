"""Memory that worker processes share with the coordinator: mapped files."""

__all__: list[str] = []
