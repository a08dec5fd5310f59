"""All numbers of a report are those of the run directories, computed again from their tables."""

from __future__ import annotations

import re
import sqlite3
import statistics
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import mmfl
from mmfl.fairness import jain, variance
from mmfl.report.document import gather, render_html, render_markdown
from mmfl.report.document.numbers import STYLES, find, show
from support.reading_pages import Page, decode_png

SEEDS = (2, 3, 5)
FOLDERS = ("b-x-y-script", "uniform")
TASKS = ("c.mean", "c")
TARGET = 0.2


def query(folder: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "run.sqlite")) as database:
        return database.execute(statement).fetchall()


@pytest.fixture(scope="module")
def folders(rich) -> list[list[Path]]:
    """By variant and seed."""
    return [[rich / variant / f"seed-{seed}" for seed in SEEDS] for variant in FOLDERS]


def metrics(folder: Path) -> np.ndarray:
    """(T, S) accuracy."""
    rows = query(folder, "SELECT metric FROM round_task ORDER BY round, task")
    return np.array(rows, np.float64).reshape(-1, len(TASKS))


def over(values: list[float | None]) -> dict[str, Any]:
    """Mean, standard deviation and number of the values that are known."""
    known = [value for value in values if value is not None]
    return {
        "mean": statistics.fmean(known) if known else None,
        "sd": statistics.stdev(known) if len(known) > 1 else None,
        "n": len(known),
        "values": values,
    }


def first_round(table: np.ndarray) -> float | None:
    reached = np.flatnonzero(table.min(axis=1) >= TARGET)
    return float(reached[0] + 1) if reached.size else None


QUANTITIES = {
    "worst": lambda table: float(table[-1].min()),
    "mean": lambda table: float(table[-1].mean()),
    "variance": lambda table: variance(table[-1]),
    "jain": lambda table: jain(table[-1]),
    "rounds_to_target": first_round,
}


def results(folders: list[Path], name: str) -> dict[str, Any]:
    tables = [metrics(folder) for folder in folders]
    return {
        "name": name,
        "seeds": list(SEEDS),
        "rounds": [4] * 3,
        "measured_every": [1] * 3,
        "turns": dict(zip(TASKS, accepted(folders).sum(axis=0).tolist(), strict=True)),
        "tasks": {t: over([float(m[-1, s]) for m in tables]) for s, t in enumerate(TASKS)},
        **{key: over([of(table) for table in tables]) for key, of in QUANTITIES.items()},
    }


def accepted(folders: list[Path]) -> np.ndarray:
    """(T, S) accepted turns, all seeds together."""
    rows = [query(f, "SELECT clients FROM round_task ORDER BY round, task") for f in folders]
    return np.array(rows).reshape(len(folders), -1, len(TASKS)).sum(axis=0)


def difference(first: list[float | None], other: list[float | None], sign: int) -> dict[str, Any]:
    pairs = [
        (seed, b - a)
        for seed, a, b in zip(SEEDS, first, other, strict=True)
        if a is not None and b is not None
    ]
    values = [value for _, value in pairs]
    found = {
        "mean": statistics.fmean(values) if values else None,
        "interval": None,
        "seeds": [seed for seed, _ in pairs],
        "differences": values,
        "first_better": sum(sign * value < 0 for value in values),
        "other_better": sum(sign * value > 0 for value in values),
    }
    if len(values) > 1:
        half = stats.t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
        found["interval"] = [found["mean"] - half, found["mean"] + half]
    return found


def assert_close(found: Any, wanted: Any, path: str = "", digits: float = 1e-12) -> None:
    """The same, but for the last digits of numbers; `wanted` need not have all keys."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            assert_close(found[key], value, f"{path}.{key}", digits)
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted), path
        for place, value in enumerate(wanted):
            assert_close(found[place], value, f"{path}.{place}", digits)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=digits, abs=1e-12), path
    else:
        assert found == wanted, path


def test_results_and_differences(content, folders):
    chapter = content["chapters"][0]
    names = [variant["name"] for variant in chapter["results"]["variants"]]
    wanted = [results(of, name) for of, name in zip(folders, names, strict=True)]
    assert_close(chapter["results"]["variants"], wanted)
    signs = {"variance": -1, "rounds_to_target": -1}
    first, other = wanted
    keys = [*QUANTITIES]
    pair = {
        "variant": names[1],
        "to": names[0],
        **{
            key: difference(first[key]["values"], other[key]["values"], signs.get(key, 1))
            for key in keys
        },
        "tasks": {
            task: difference(first["tasks"][task]["values"], other["tasks"][task]["values"], 1)
            for task in TASKS
        },
    }
    assert_close(chapter["results"]["differences"], [pair])
    assert chapter["results"]["target"] == TARGET


def test_the_lead_is_the_difference_to_the_next(content):
    chapter = content["chapters"][0]
    lead, (first, other) = chapter["lead"], chapter["results"]["variants"]
    pair = chapter["results"]["differences"][0]["worst"]
    ahead = other["worst"]["mean"] > first["worst"]["mean"]
    sign = 1 if ahead else -1
    assert lead["best"] == (other if ahead else first)["name"]
    assert lead["mean"] == pytest.approx(sign * pair["mean"])
    assert sorted(lead["interval"]) == pytest.approx(sorted(sign * end for end in pair["interval"]))
    assert lead["ahead"] == pair["other_better" if ahead else "first_better"]
    assert lead["seeds"] == 3


def test_curves(content, folders):
    curves = content["chapters"][0]["curves"]
    assert curves["rounds"] == [1, 2, 3, 4]
    for v, of in enumerate(folders):
        table = np.stack([metrics(folder) for folder in of])
        wanted = {
            "worst": table.min(axis=2),
            "mean": table.mean(axis=2),
            "variance": table.var(axis=2),
            "jain": np.array([[jain(row) for row in seed] for seed in table]),
        }
        for key, values in wanted.items():
            check_curve(curves["measures"][key][v], values)
        for s, task in enumerate(TASKS):
            assert curves["tasks"][s]["name"] == task
            check_curve(curves["tasks"][s]["variants"][v], table[:, :, s])


def check_curve(found: dict[str, list[float]], values: np.ndarray) -> None:
    parts = {"mean": values.mean(axis=0), "low": values.min(axis=0), "high": values.max(axis=0)}
    assert found.keys() == parts.keys()
    for key, wanted in parts.items():
        assert found[key] == pytest.approx(wanted.tolist(), rel=1e-5, abs=1e-12)


def test_turns_and_the_map(content, folders):
    for v, of in enumerate(folders):
        found = content["chapters"][0]["turns"][v]
        counts = accepted(of)
        assert (found["edges"], found["counts"]) == ([0, 1, 2, 3, 4], counts.tolist())
        assert found["accepted"] == counts.sum(axis=0).tolist()
        assert found["share"] == pytest.approx((counts.sum(axis=0) / counts.sum()).tolist())
        turns = [mmfl.Run.load(folder).turns() for folder in of]
        asked = [sum(t.task == task for one in turns for t in one) for task in TASKS]
        assert found["asked"] == asked
        used = [{turn.client for turn in one} for one in turns]
        assert found["used"] == [min(map(len, used)), max(map(len, used))]
        assert (found["clients"], found["map"]["seed"]) == (12, 2)
        most = [max(sum(t.client == k for t in one) for k in range(12)) for one in turns]
        assert found["busiest"] == max(most)
        check_map(found["map"], turns[0])


def check_map(found: dict[str, Any], turns: list[Any]) -> None:
    assert found["clients"] == sorted({turn.client for turn in turns})
    assert (found["rounds"], found["step"], found["others"]) == (4, 1, 0)
    pixels, colours = decode_png(found["image"])
    assert colours == found["colours"]
    assert len(set(colours)) == 4
    wanted = np.zeros((len(found["clients"]), 4), int)
    for turn in turns:
        row = found["clients"].index(turn.client)
        wanted[row, turn.round - 1] = 1 + TASKS.index(turn.task) if turn.accepted else 4
    assert np.array_equal(pixels, wanted)
    assert found["failed"]
    assert not found["several"]


def test_auctions(content, folders):
    for v, of in enumerate(folders):
        found = content["chapters"][0]["auctions"][v]
        auctions = [
            query(
                f, "SELECT willing, winners, take_up, price, spend, bids FROM auction ORDER BY task"
            )
            for f in of
        ]
        awards = [query(f, "SELECT task, client, payment, paid FROM award") for f in of]
        wanted = {}
        for s, task in enumerate(TASKS):
            columns = [auction[s] for auction in auctions]
            keys = ("willing", "winners", "take_up", "price", "spend")
            wanted[task] = {k: over([c[n] for c in columns]) for n, k in enumerate(keys)} | {
                "paid": over([sum(a[3] for a in one if a[0] == s) for one in awards]),
                "highest_payment": over([max(a[2] for a in one if a[0] == s) for one in awards]),
            }
        assert_close(found["tasks"], wanted)
        bids = [
            np.stack([np.frombuffer(zlib.decompress(row[5]), "<f8") for row in auction])
            for auction in auctions
        ]
        willing = [np.isfinite(table).any(axis=0) for table in bids]
        left = [
            sorted(set(np.flatnonzero(w).tolist()) - {a[1] for a in one})
            for w, one in zip(willing, awards, strict=True)
        ]
        assert_close(
            found,
            {
                "mechanism": "max_min_fair",
                "budget": 4.0,
                "seeds": list(SEEDS),
                "bidders": 12,
                "willing": over([int(w.sum()) for w in willing]),
                "left_out": over([len(one) for one in left]),
                "left_out_first": {"seed": 2, "clients": left[0], "count": len(left[0])},
                "spent": over([sum(row[4] for row in auction) for auction in auctions]),
                "paid": over([sum(a[3] for a in one) for one in awards]),
                "min_take_up": over([min(row[2] for row in auction) for auction in auctions]),
            },
        )


def test_failures_faults_and_quarantine(content, folders):
    for v, of in enumerate(folders):
        found = content["chapters"][0]["troubles"][v]
        failures = [row for f in of for row in mmfl.Run.load(f).failures()]
        faults = [row for f in of for row in mmfl.Run.load(f).table("faults")]
        counts = {(r["task"], r["reason"]): r["count"] for r in found["reasons"]}
        assert counts == {
            (task, reason): sum((f.task, f.reason) == (task, reason) for f in failures)
            for task, reason in {(f.task, f.reason) for f in failures}
        }
        assert found["failed"] == len(failures) > 0
        assert found["turns"] == sum(len(mmfl.Run.load(f).turns()) for f in of)
        assert found["by_round"] == [sum(f.round == t for f in failures) for t in (1, 2, 3, 4)]
        for kind, tally in found["faults"].items():
            of_kind = [fault.outcome for fault in faults if fault.kind == kind]
            assert tally == {
                "injected": len(of_kind),
                **{key: of_kind.count(key) for key in ("lost", "refused", "accepted")},
            }
        assert {"dropout", "nan"} == found["faults"].keys()
        rounds = [row for f in of for row in mmfl.Run.load(f).table("rounds")]
        assert found["quarantined"] == max(row.quarantined for row in rounds)


def test_times_and_runs(content, folders):
    chapter = content["chapters"][0]
    for v, of in enumerate(folders):
        runs = [mmfl.Run.load(folder) for folder in of]
        keys = ("seconds", "seconds_train", "seconds_evaluate", "seconds_setup")
        wanted = {key: over([getattr(run, key) for run in runs]) for key in keys}
        wanted["samples"] = over([float(run.samples) for run in runs])
        rounds = [run.table("rounds") for run in runs]
        wanted["virtual"] = over([sum(row.virtual for row in one) for one in rounds])
        assert_close(chapter["times"][v], wanted)
        seconds = np.array([[row.seconds for row in one] for one in rounds]).mean(axis=0)
        assert chapter["times"][v]["by_round"] == pytest.approx(seconds.tolist(), rel=1e-5)
    listed = [(run["seed"], run["fingerprint"]) for run in chapter["runs"]]
    stored = [(seed, f) for of in folders for seed, f in zip(SEEDS, of, strict=True)]
    assert listed == [(seed, mmfl.Run.load(folder).fingerprint) for seed, folder in stored]
    for (_, folder), found in zip(stored, chapter["runs"], strict=True):
        assert found["worst"] == metrics(folder)[-1].min()
        assert (found["rounds"], found["planned"], found["resumed"]) == (4, 4, 0)


def test_every_number_that_is_shown_is_the_one_in_the_data(content):
    page = Page(render_html(content))
    assert page.content == content
    numbers = page.root.find_all("data")
    assert len(numbers) > 150
    for element in numbers:
        value = find(content, element.attributes["data-at"])
        assert float(element.attributes["value"]) == value
        texts = {show(value, style) for style in STYLES}
        assert element.text() in texts
        assert_near(element.text(), value)


UNITS = {" ms": 1e-3, " min": 60.0, " s": 1.0, " h": 3600.0, "%": 0.01, "": 1.0}


def assert_near(text: str, value: float) -> None:
    """The text is the value, rounded."""
    plain = text.replace(",", "")
    unit = next(unit for unit in UNITS if plain.endswith(unit))
    number, factor = plain.removesuffix(unit), UNITS[unit]
    places = len(number.partition(".")[2]) if "e" not in number else 0
    assert float(number) * factor == pytest.approx(value, abs=0.51 * 10**-places * factor, rel=0.05)


def test_no_number_in_a_table_of_numbers_comes_from_elsewhere(content):
    page = Page(render_html(content))
    tables = [t for t in page.root.find_all("table") if t.attributes.get("class") == "numbers"]
    assert len(tables) > 6
    for table in tables:
        for cell in table.find_all("td"):
            rest = cell.text("data")
            assert re.fullmatch(r"\s*(-|never|±|of|to|of [23]|/3|\s)*\s*", rest), rest


def test_no_part_of_the_data_is_left_unchecked(content):
    """Whoever adds something to a report adds it to the tests above."""
    (chapter,) = content["chapters"]
    words = {"name", "remarks", "sound", "verdict", "config", "environment", "experiment", "tasks"}
    parts = {"results", "lead", "curves", "turns", "auctions", "troubles", "times", "runs"}
    assert chapter.keys() == words | parts
    assert chapter["turns"][0].keys() == {
        *("edges", "counts", "accepted", "asked", "share", "clients", "used", "busiest", "map"),
    }
    assert chapter["turns"][0]["map"].keys() == {
        *("seed", "clients", "others", "rounds", "step", "several", "failed", "colours", "image"),
    }
    assert chapter["auctions"][0].keys() == {
        *("mechanism", "budget", "stops", "seeds", "bidders", "tasks", "spent", "paid", "willing"),
        *("min_take_up", "left_out", "left_out_first"),
    }
    assert chapter["troubles"][0].keys() == {
        *("failed", "turns", "reasons", "other_reasons", "faults", "quarantined", "edges"),
        "by_round",
    }
    assert chapter["times"][0].keys() == {
        *("seconds", "seconds_train", "seconds_evaluate", "seconds_setup", "samples", "by_round"),
        "virtual",
    }


def test_markdown_has_the_same_numbers(content):
    text = render_markdown(content)
    for variant in content["chapters"][0]["results"]["variants"]:
        for key, style in (("worst", "share"), ("variance", "variance"), ("jain", "share")):
            assert show(variant[key]["mean"], style) in text
    for run in content["chapters"][0]["runs"]:
        assert run["fingerprint"][:16] in text


def test_the_target_is_one_that_all_variants_reach(rich):
    found = gather([rich])["chapters"][0]["results"]
    means = [variant["worst"]["mean"] for variant in found["variants"]]
    assert found["target"] is None or 0 <= min(means) - found["target"] < 0.05
