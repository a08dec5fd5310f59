"""Auctions, allocation and theory also work where the operating system is another one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WINDOWS = """
import os, sys
for name in ("resource", "fcntl", "pwd", "grp", "termios", "tty", "pty"):
    sys.modules[name] = None
for name in ("posix_fallocate", "pread", "pwrite", "sched_getaffinity", "getuid", "fork", "sysconf",
             "O_CLOEXEC", "O_NONBLOCK", "O_DIRECTORY", "O_NOFOLLOW", "memfd_create"):
    if hasattr(os, name):
        delattr(os, name)
"""
MARKET = 'clients = 2000000\n[tasks.a]\nkind = "uniform"\n'


@pytest.mark.parametrize("module", ["mmfl", "mmfl.market", "mmfl.allocate", "mmfl.theory"])
def test_it_is_imported(module):
    script = f"{WINDOWS}import {module}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_auction_is_held():
    Path("bids.csv").write_text("client,a,b\n0,0.1,0.2\n1,0.3,0.1\n")
    Path("market.toml").write_text(MARKET)
    script = (
        f"{WINDOWS}from mmfl.market import Market, max_min_fair, read_bids, write_awards\n"
        "outcome = max_min_fair(read_bids('bids.csv'), 1.0)\n"
        "write_awards(outcome, 'awards.csv')\n"
        "assert Market.load('market.toml').bids().shape == (2000000, 1)\n"
        "assert outcome.min_take_up > 0\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("awards.csv").read_text().startswith("client,task,bid,participation,payment")
