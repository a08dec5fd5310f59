"""Benchmarks: speed and memory, always measured beside something else. See README.md."""
