"""Deliberate failures: kills, power cuts, failing calls and invalid input. See README.md."""
