"""Chaos: kills, power cuts, failing calls and wrong input, on purpose. See README.md."""
