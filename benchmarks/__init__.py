"""Benchmarks of speed and memory, always relative to something else. See README.md."""
