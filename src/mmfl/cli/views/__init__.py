"""What commands show: tables and progress."""

__all__: list[str] = []
