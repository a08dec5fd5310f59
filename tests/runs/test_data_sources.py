"""Every source of data: one fingerprint with every engine; runs resume, and edits are found."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

import mmfl
from mmfl.errors import StoreError
from mmfl.runs import verify
from support.helpers import one_line

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(no test data was given|are numbered in|becomes a column|not every task)"
)

ROWS = 60
TABLE = {
    "age": [20 + row % 7 for row in range(ROWS)],
    "sex": ["FM"[row % 2] for row in range(ROWS)],
    "ward": [f"w{row % 4}" for row in range(ROWS)],
    "ill": [["no", "yes", "maybe"][row % 3] for row in range(ROWS)],
}
ROLES = {"target": "ill", "client": "ward"}


def write_csv(changed: bool = False) -> None:
    with Path("table.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(TABLE)
        writer.writerows(zip(*TABLE.values(), strict=True))
        if changed:
            writer.writerow([21, "M", "w1", "no"])


def write_parquet(changed: bool = False) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(TABLE).slice(int(changed))
    pytest.importorskip("pyarrow.parquet").write_table(table, "table.parquet")


def write_images(changed: bool = False) -> None:
    image = pytest.importorskip("PIL.Image")
    for row in range(ROWS):
        path = Path(f"photos/{row % 3}/{row}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        shade = 250 if changed and row == 7 else 80 * (row % 3) + row % 5
        image.fromarray(np.full((4, 4), shade, np.uint8)).save(path)


FILES = {
    "csv": (write_csv, {"kind": "csv", "path": "table.csv"} | ROLES),
    "parquet": (write_parquet, {"kind": "parquet", "path": "table.parquet"} | ROLES),
    "image_folder": (write_images, {"kind": "image_folder", "path": "photos"}),
}


def make_frame():
    return mmfl.from_frame(pytest.importorskip("pandas").DataFrame(TABLE), **ROLES)


def make_hugging_face():
    return mmfl.from_hugging_face(pytest.importorskip("datasets").Dataset.from_dict(TABLE), **ROLES)


def make_torch():
    x = torch.arange(ROWS * 3.0).reshape(ROWS, 3) / 100
    return torch.utils.data.TensorDataset(x, torch.arange(ROWS) % 3 + 1)


MEMORY = {"frame": make_frame, "hugging face": make_hugging_face, "torch": make_torch}


def make(*tasks, engine="inline", rounds=2) -> mmfl.Experiment:
    model = {"kind": "mlp", "hidden": [4]}
    made = [
        mmfl.Task(f"t{number}", model=model, normalize="standard", **task)
        for number, task in enumerate(tasks)
    ]
    return mmfl.Experiment(tasks=made, clients=4, rounds=rounds, engine=engine)


@pytest.mark.filterwarnings("ignore:.*are renumbered")
def test_every_source_has_the_same_bits_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for write, _ in FILES.values():
        write()
    tasks = [{"data": make_data()} for make_data in MEMORY.values()]
    tasks += [{"dataset": dataset} for _, dataset in FILES.values()]
    found = {
        mmfl.run(make(*tasks, engine=engine), out=f"runs/{number}").fingerprint
        for number, engine in enumerate(("inline", {"workers": 1}, {"workers": 2}))
    }
    assert len(found) == 1
    short = mmfl.run(make(*tasks, rounds=1), out="runs/resumed")
    assert short.fingerprint not in found
    assert mmfl.run(make(*tasks), out="runs/resumed", resume=True).fingerprint in found


@pytest.mark.parametrize("kind", FILES)
def test_an_edited_file_is_found(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write, dataset = FILES[kind]
    write()
    run = mmfl.run(make({"dataset": dataset}), out="runs/0")
    assert not verify("runs/0").damaged
    stored = mmfl.Experiment.load("runs/0/experiment.toml")
    assert stored == mmfl.Experiment.from_toml(stored.to_toml())
    assert mmfl.run(stored, out="runs/again").fingerprint == run.fingerprint
    write(changed=True)
    (part,) = [part for part in verify("runs/0").parts if part.name == "data of t0"]
    assert (part.verdict, part.detail) == ("damaged", "it differs from what the run was made with")
    longer = make({"dataset": dataset}, rounds=3)
    said = one_line(StoreError, lambda: mmfl.run(longer, out="runs/0", resume=True))
    assert "was started with different data for t0, so it cannot be resumed" in said


def test_the_same_table_is_the_same_run_from_any_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv()
    write_parquet()
    found = {
        mmfl.run(make(task), out=f"runs/{number}").fingerprint
        for number, task in enumerate(
            [
                {"dataset": FILES["csv"][1]},
                {"dataset": FILES["parquet"][1]},
                {"data": make_frame()},
                {"data": make_hugging_face()},
            ]
        )
    }
    assert len(found) == 1


def test_tasks_with_other_clients_have_the_same_bits_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv()
    lines = Path("table.csv").read_text().splitlines()
    Path("other.csv").write_text("\n".join(line for line in lines if ",w0," not in line))
    both = FILES["csv"][1], FILES["csv"][1] | {"path": "other.csv"}
    model = {"kind": "mlp", "hidden": [4]}
    tasks = [mmfl.Task(name, dataset=d, model=model) for name, d in zip("ab", both, strict=True)]
    found = set()
    for number, engine in enumerate(("inline", {"workers": 2})):
        made = mmfl.Experiment(tasks=tasks, clients=4, rounds=3, engine=engine)
        run = mmfl.run(made, out=f"runs/{number}")
        assert {turn.client for turn in run.turns() if turn.task == "b"} <= {1, 2, 3}
        found.add(run.fingerprint)
    assert len(found) == 1
    assert not verify("runs/0").damaged
