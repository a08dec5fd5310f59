"""The rules, one file each; `mmfl.allocate.ALLOCATORS` is their table."""
