"""Experiments that have everything a report can show."""

from __future__ import annotations

from support.experiments import write_small

NASTY = "<b>\"x\"&'y'</script>"
"""A variant's name."""

RICH = write_small(
    "c.mean",
    "c",
    top="rounds = 4\nseed = 2",
    clients="count = 12\nactive = 0.75",
    local="epochs = 4\nlr = 0.1\nbatch_size = 4",
) + (
    "[faults]\ndropout = 0.2\nspeed = 2.0\n"
    '[[faults.clients]]\nids = [1, 3]\ndoes = "nan"\n'
    "[quarantine]\nstrikes = 2\nrounds = 2\n"
    '[recruitment]\nmechanism = { kind = "max_min_fair", budget = 4.0 }\n'
    'bids = { kind = "uniform" }\n'
)
"""Two tasks, an auction, faults and a quarantine."""
