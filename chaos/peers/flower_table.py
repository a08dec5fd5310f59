"""The tables of docs/explanation/flower-faults.md, from what `flower_faults.py` has measured.

python chaos/peers/flower_table.py chaos/results/flower.json

The numbers come from the file; the lines of Flower's source (1.41.0) were looked up by hand.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

__all__ = ["WHERE", "tables"]

UTILS = "serverapp/strategy/strategy_utils.py"
LINK = "server/superlink/linkstate/in_memory_linkstate.py"
WORKER = "server/superlink/fleet/vce/vce_api.py"
VALUES = f"{UTILS}:95 `aggregate_arrayrecords` does not check values"
WEIGHTS = f"{UTILS}:82 `aggregate_arrayrecords` uses the weights as they are"
KEYS_ONLY = f"{UTILS}:189 `validate_message_reply_consistency` compares names, not contents"
DEADLINE = "serverapp/strategy/strategy.py:140 `start(timeout=3600)`; "
DEADLINE += "superlink/grid/inmemory_grid.py:168 "
DEADLINE += "`send_and_receive` continues with the replies it has"

WHERE = {  # for the kinds that raise nothing: an exception shows where it comes from
    "dropout": f"{WORKER}:142 `worker` makes an error reply; "
    "serverapp/strategy/fedavg.py:217 `_check_and_log_replies` sets it aside",
    "never answers": DEADLINE,
    "too slow": DEADLINE,
    "NaN update": VALUES,
    "Inf update": VALUES,
    "wrong shape (one row, arrives last)": f"{UTILS}:95 `aggregate_arrayrecords`: "
    "`+=` lets NumPy broadcast",
    "absurd weight (10**12)": WEIGHTS,
    "absurd weight (10**12, sign-flipped)": WEIGHTS,
    "absurd weight (0)": WEIGHTS,
    "absurd weight (negative)": WEIGHTS,
    "absurd weight (NaN)": WEIGHTS,
    "absurd weight (str)": "app/message/metricrecord.py:51 `_check_value` raises TypeError in the "
    "client itself",
    "scaled update": VALUES,
    "sign-flipped": VALUES,
    "duplicate reply": f"{LINK}:345 `store_message_res` keeps one reply to a message",
    "duplicate reply (two messages returned)": f"{WORKER}:163 `worker` asks the list for its "
    "metadata, and the thread ends",
    "replay": KEYS_ONLY,
    "replay (addressed to the earlier message)": f"{LINK}:304 `store_message_res`: the earlier "
    "message is gone",
    "false reported loss (NaN)": f"{UTILS}:102 `aggregate_metricrecords` does not check values",
    "false reported loss (1e9)": f"{UTILS}:102 `aggregate_metricrecords` does not check values",
    "wrong dtype (float64)": f"{UTILS}:95 `aggregate_arrayrecords`: `+=` casts",
    "wrong dtype (int)": f"{UTILS}:95 `aggregate_arrayrecords`: `+=` casts",
    "malformed content (an unknown record more)": f"{UTILS}:189 "
    "`validate_message_reply_consistency` counts array and metric records only",
    "malformed content (no message returned)": f"{WORKER}:161 `worker` has nothing to send on",
    "client process killed": "server/superlink/fleet/vce/backend/raybackend.py:194 "
    "`process_message` puts the dead actor back into the pool",
}


def _number(value: float | str | None) -> str:
    return "-" if value is None else str(value)


def _seen(told: dict[str, Any]) -> str:
    """What a run showed, in one line."""
    if told["outcome"] == "run ended":
        error = told["exception"]
        line = error["first line"].removesuffix(" Skipping aggregation.").replace("`", "'")
        return f"round {told['rounds'] + 1}: `{error['type']}: {line}`"
    notes = []
    if len(set(told["averaged"])) > 1:
        notes.append(f"replies averaged in each round: {', '.join(map(str, told['averaged']))}")
    elif told["outcome"] == "refused":
        notes.append(f"{told['averaged'][0]} replies averaged in each round")
    if any(failed for _, failed in told["received"]):
        notes.append(f"failures counted: {', '.join(str(f) for _, f in told['received'])}")
    if not all(told["finite"]):
        notes.append(f"weights not finite from round {told['finite'].index(False) + 1} on")
    elif told["largest weight"][-1] > 100:
        notes.append(f"largest weight {told['largest weight'][-1]:.2g}")
    loss = told["reported loss"][-1]
    if all(told["finite"]) and (isinstance(loss, str) or loss > 100):
        notes.append(f"model as in the clean run, averaged training loss {_number(loss)}")
    if told["seconds"] > 15:
        notes.append(f"{told['seconds']:.0f} s for 4 rounds")
    if "second copy accepted" in told:
        copies = told["second copy accepted"]
        notes.append(f"second copies stored: {sum(copies)} of {len(copies)}")
    if not told["logged"]:
        notes.append("nothing logged")
    return "; ".join(notes)


def _where(kind: str, told: dict[str, Any]) -> str:
    if "exception" in told:
        place, _, function = told["exception"]["where"].removeprefix("flwr/").partition(" ")
        return f"{place} `{function}`"
    return WHERE[kind]


def _score(told: dict[str, Any]) -> str:
    if told["final accuracy"] is None:
        return "-"
    return f"{told['final accuracy']:.3f} / {_number(told['final loss'])}"


def tables(whole: dict[str, Any]) -> str:
    """FedAvg, kind by kind, and the robust strategies side by side."""
    fedavg = whole["runs"]["FedAvg"]
    lines = [
        "| kind | outcome | what was seen | final accuracy / loss | where in flwr/ |",
        "|---|---|---|---|---|",
        f"| (no fault) | | | {_score(fedavg['none'])} | |",
    ]
    for kind, told in fedavg.items():
        if kind != "none":
            cells = (kind, told["outcome"], _seen(told), _score(told), _where(kind, told))
            lines.append(f"| {' | '.join(cells)} |")
    robust = {name: runs for name, runs in whole["runs"].items() if name != "FedAvg"}
    kinds = list(next(iter(robust.values())))
    lines += ["", f"| kind | {' | '.join(robust)} |", f"|---|{'---|' * len(robust)}"]
    for kind in kinds:
        cells = []
        for runs in robust.values():
            told = runs[kind]
            ended = told["outcome"] == "run ended"
            shown = f"`{told['exception']['type']}`" if ended else _score(told)
            cells.append(shown if kind == "none" else f"{told['outcome']}: {shown}")
        lines.append(f"| {'(no fault)' if kind == 'none' else kind} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    page = "docs/explanation/flower-faults.md"
    parser = argparse.ArgumentParser(description=f"The tables of {page}.")
    parser.add_argument("results", type=Path)
    sys.stdout.write(tables(json.loads(parser.parse_args().results.read_text())))
