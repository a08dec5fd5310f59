"""What the dashboard costs: the first page of 1,000 runs, the delay of a round, and 50 open pages.

    make bench-dashboard

1. 1,000 finished runs of 120 rounds are generated (one is run, and copied). A server is started on
   them, and the list is asked for at once, and again when the server knows all runs.
2. A run does rounds while a page is open: how long after its end is a round there?
3. Runs of a real experiment alternate: alone, and with a server that streams to 50 open pages. The
   ratio of their times is noisy, so the processor time of the server is measured, too.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mmfl
from benchmarks.harness import HOUSE, arguments, machine, module, run_json, save, spread
from mmfl.dashboard.library import make_id
from mmfl.runs import stored_rounds

EXPERIMENT = "experiments/first_run/first_run.toml"
SMALL = """
rounds = 120
[clients]
count = 4
[local]
epochs = 1
[engine]
kind = "inline"
"""
TASK = """
[[tasks]]
name = "{name}"
dataset = {{ kind = "synthetic", train = 40, test = 10, seed = {seed} }}
model = {{ kind = "mlp", hidden = [4] }}
"""


def write_small(rounds: int) -> mmfl.Experiment:
    """Three tasks that train in a moment."""
    text = SMALL + "".join(TASK.format(name=f"task_{n}", seed=n) for n in range(3))
    return mmfl.Experiment.from_toml(text, sets=[f"rounds={rounds}"])


def make_runs(folder: Path, count: int, rounds: int) -> None:
    """As many runs: half of them in comparisons of 5 variants and 5 seeds."""
    first = folder / "first"
    mmfl.run(write_small(rounds), first)
    shutil.rmtree(first / "checkpoints", ignore_errors=True)
    for number in range(count - 1):
        if number % 2:
            place, rest = divmod(number // 2, 25)
            path = folder / f"sweep-{place}" / f"rule-{rest // 5}" / f"seed-{rest % 5}"
        else:
            path = folder / f"run-{number}"
        shutil.copytree(first, path)


@contextmanager
def serve(folder: Path) -> Iterator[tuple[str, int]]:
    """A dashboard in a process of its own; yields its host and port, and its process ID."""
    command = module("mmfl", "dashboard", str(folder))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HOUSE)
    assert process.stdout is not None
    address = process.stdout.readline().partition("http://")[2].partition("/")[0]
    try:
        yield address, process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        process.stdout.close()


def ask(address: str, path: str = "/") -> tuple[float, str]:
    """The seconds that a page took, and the page."""
    start = time.perf_counter()
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", path)
    text = connection.getresponse().read().decode()
    seconds = time.perf_counter() - start
    connection.close()
    return seconds, text


def measure_list(count: int, rounds: int, repeats: int) -> dict[str, Any]:
    """How long the list takes: right after the start, until it is whole, and later."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "runs"
        make_runs(folder, count, rounds)
        first, rows, whole, later = [], [], [], []
        for _ in range(repeats):
            with serve(folder) as (address, _):
                start = time.perf_counter()
                seconds, text = ask(address)
                first.append(seconds)
                rows.append(text.count("data-line"))
                while "Reading" in text:
                    time.sleep(0.2)
                    text = ask(address)[1]
                whole.append(time.perf_counter() - start)
                later += [ask(address, f"/?page={page}")[0] for page in (1, 2, 5)]
    return {
        "runs": count,
        "rounds": rounds,
        "first page, right after the start (s)": spread(first),
        "lines on it": min(rows),
        "all runs are read (s)": spread(whole),
        "a page later (s)": spread(later),
    }


def listen(address: str, path: str, events: list[float], stop: threading.Event) -> None:
    """Read a stream, and note when its events come."""
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    while not stop.is_set():
        line = answer.readline()
        if not line:
            return
        if line.startswith(b"data: "):
            events.append(time.perf_counter())
    connection.close()


def measure_delay(rounds: int) -> dict[str, Any]:
    """How long after its end a round reaches an open page."""
    delays = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "runs" / "one"
        with stored_rounds(write_small(rounds + 1), folder) as stored:
            next(stored)
            with serve(folder.parent) as (address, _):
                path, events = f"/runs/{make_id(folder, folder.parent)}", list[float]()
                while "does not exist" in ask(address, path)[1]:
                    time.sleep(0.05)
                stop = threading.Event()
                arguments_ = (address, f"/events{path}", events, stop)
                thread = threading.Thread(target=listen, args=arguments_, daemon=True)
                thread.start()
                while not events:
                    time.sleep(0.01)
                for number in range(rounds):
                    time.sleep(0.37 + number % 7 * 0.09)  # rounds end at any moment
                    before = len(events)
                    next(stored)
                    ended = time.perf_counter()
                    while len(events) == before:
                        time.sleep(0.002)
                    delays.append(events[-1] - ended)
                stop.set()
    return {"rounds": rounds, "delay (s)": spread(delays)}


def train(folder: Path, rounds: int) -> float:
    """The seconds of the round loop of a real experiment."""
    options = ("--set", f"rounds={rounds}", "--json", "--out", str(folder))
    return float(run_json(module("mmfl", "run", EXPERIMENT, *options))["seconds"])


def processor_time(pid: int) -> float:
    """The seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


READ = """
import socket, sys, selectors
host, port, path, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
pages = selectors.DefaultSelector()
for _ in range(count):
    page = socket.create_connection((host, port))
    page.sendall(f"GET {path} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode())
    pages.register(page, selectors.EVENT_READ)
print("open", flush=True)
total = 0
while True:
    for key, _ in pages.select():
        got = key.fileobj.recv(1 << 20)
        total += len(got)
        if not got:
            sys.exit()
"""


def measure_pages(rounds: int, pages: int, repeats: int) -> dict[str, Any]:
    """Runs alone, and with a dashboard that streams to many pages."""
    alone, watched, shares = [], [], []
    with tempfile.TemporaryDirectory() as name:
        train(Path(name) / "warm", 2)
        for number in range(repeats):
            alone.append(train(Path(name) / f"alone-{number}", rounds))
            folder = Path(name) / f"watched-{number}" / "one"
            folder.parent.mkdir()
            with serve(folder.parent) as (address, pid):
                host, _, port = address.partition(":")
                found = list[float]()
                thread = threading.Thread(target=lambda: found.append(train(folder, rounds)))  # noqa: B023
                thread.start()
                path = f"/runs/{make_id(folder, folder.parent)}"
                while "does not exist" in ask(address, path)[1]:
                    time.sleep(0.05)
                command = [sys.executable, "-c", READ, host, port, f"/events{path}", str(pages)]
                reader = subprocess.Popen(command, stdout=subprocess.PIPE)
                assert reader.stdout is not None
                reader.stdout.readline()
                before, start = processor_time(pid), time.perf_counter()
                thread.join()
                shares.append((processor_time(pid) - before) / (time.perf_counter() - start))
                watched.append(found[0])
                reader.kill()
                reader.wait()
                reader.stdout.close()
    ratio = [b / a for a, b in zip(alone, watched, strict=True)]
    return {
        "experiment": EXPERIMENT,
        "rounds": rounds,
        "pages": pages,
        "alone (s)": spread(alone),
        "watched (s)": spread(watched),
        "watched over alone": spread(ratio),
        "processor time of the server, as a share of one core": statistics.median(shares),
    }


def main() -> None:
    """Measure all three, and print and store the results."""
    parser = arguments(__doc__, repeats=5)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--pages", type=int, default=50)
    given = parser.parse_args()
    found = {
        **machine("make bench-dashboard", "mmfl", "starlette", "uvicorn"),
        "list": measure_list(given.runs, given.rounds, given.repeats),
        "delay": measure_delay(5 * given.repeats),
        "pages": measure_pages(given.rounds, given.pages, given.repeats),
    }
    print(json.dumps(found, indent=1))
    save(found, given.out)


if __name__ == "__main__":
    main()
