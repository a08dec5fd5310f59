"""Benchmarks: speed and memory, always measured relative to something else. See README.md."""
