"""`mmfl export --model`: weights, configuration and card, usable with mmfl and without."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import mmfl
from mmfl import Experiment, Task
from mmfl.errors import InputError, MmflWarning, StoreError
from mmfl.models import MODELS
from mmfl.runs import stored_rounds
from mmfl.runs.export import export_models
from support.helpers import one_line
from support.made_data import clouds
from support.rewriting import make_older

pytestmark = pytest.mark.filterwarnings("ignore:the (data|table)")

PLAIN = {"cnn", "logistic", "mlp", "published_cnn"}
SERIES = {"cnn1d", "gru", "lstm", "transformer"}
SMALL = {
    "cnn": {"channels": [4, 8], "dense": 16},
    "published_cnn": {"channels": [4, 8], "dense": 16},
    "preact_resnet": {"width": 8, "blocks": [1, 1]},
}


def run_card(folder: Path, x: np.ndarray) -> list[object] | None:
    """What the code on a card without mmfl says of examples; None if there is no such code."""
    text = (folder / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text.partition("without mmfl")[2], flags=re.S)
    if not blocks:
        return None
    code = blocks[0].replace('"config.json"', repr(str(folder / "config.json")))
    code = code.replace('"model.safetensors"', repr(str(folder / "model.safetensors")))
    names = {"x": x}
    assert "mmfl" not in code
    exec(compile(code, "card", "exec"), names)
    return list(map(_plain, names["answers"]))


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, torch.Tensor) else value


@pytest.fixture
def every_model():
    """A run of every built-in model but the largest, and its test examples."""
    rng, tasks, examples = np.random.default_rng(0), [], {}
    for kind in sorted(MODELS.table.keys() - {"preact_resnet18"}):
        shape = {"mlp": (6,), "logistic": (6,)}.get(kind, (12, 3) if kind in SERIES else (8, 8, 3))
        x = rng.normal(size=(60, *shape)) * 2 + 5
        if kind in ("cnn", "preact_resnet"):
            x = (x * 20).clip(0, 255).astype(np.uint8)
        y = rng.integers(0, 3, 60)
        model = {"kind": kind, **SMALL.get(kind, {})}
        scaling = "auto" if x.dtype == np.uint8 else "standard"
        tasks.append(Task(kind, data=(x, y, x, y), model=model, normalize=scaling))
        examples[kind] = x
    local = {"steps": 2, "batch_size": 16}
    experiment = Experiment.from_dict(
        {
            **{"rounds": 1, "clients": 10, "local": local, "engine": "inline"},
            **{"tasks": tasks, "allocator": "round_robin"},
        }
    )
    return mmfl.run(experiment, "run"), examples


def test_every_model_comes_out_with_the_same_answers(every_model):
    run, examples = every_model
    written = export_models(Path("run"), Path("out"))
    assert len(written) == 3 * len(run.tasks)
    plain = set()
    for task, x in examples.items():
        folder, said = Path("out", task), run.model(task).predict(x)
        assert {path.name for path in folder.iterdir()} == {
            *("model.safetensors", "config.json", "README.md"),
        }
        assert (mmfl.load_model(folder).predict(x) == said).all()
        config = json.loads((folder / "config.json").read_text())
        assert config["result"]["value"] == run.tasks[task]["metric"]
        assert config["result"]["data_sha256"] == run.data[task]
        assert config["result"]["fingerprint"] == run.fingerprint
        found = run_card(folder, x)
        if found is not None:
            assert found == said.tolist()
            plain.add(task)
    assert plain == PLAIN
    again = export_models(Path("run"), Path("again"))
    assert [path.read_bytes() for path in written] == [path.read_bytes() for path in again]


def test_a_users_layers_of_torchs_come_out_whole():
    """Running statistics, a counter of whole numbers, and class names."""
    x, y = clouds(["sick", "well"])
    network = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.GELU(), nn.Linear(4, 2))
    task = Task("heart", data=(x, y, x, y), model=network, normalize="standard")
    run = mmfl.run(Experiment(tasks=[task], clients=3, rounds=2, engine="inline"), "run")
    export_models(Path("run"), Path("out"))
    state = load_file("out/heart/model.safetensors")
    assert state.keys() == network.state_dict().keys()
    said = run.model("heart").predict(x)
    assert run_card(Path("out/heart"), x) == said.tolist()
    one = one_line(InputError, lambda: mmfl.load_model("out/heart", network="nothing"))
    assert "network of task 'heart'" in one
    assert (mmfl.load_model("out/heart", network=network).predict(x) == said).all()


def test_numbers_and_answers_come_out_of_the_card_too():
    x, _ = clouds([0, 1])
    tags, dose = (x[:, :2] > 1).astype("f4"), x[:, :2].astype("f4")
    tasks = [
        Task("tags", data=(x, tags, x, tags), model="logistic", loss="binary_cross_entropy"),
        Task("dose", data=(x, dose, x, dose), model="mlp", loss="mse", lr=1e-3),
        Task("one", data=(x, dose[:, 0], x, dose[:, 0]), model="mlp", loss="mse", lr=1e-3),
    ]
    run = mmfl.run(Experiment(tasks=tasks, clients=6, rounds=3, engine="inline"), "run")
    export_models(Path("run"), Path("out"))
    for task in run.tasks:
        said = run.model(task).predict(x)
        assert np.allclose(run_card(Path("out", task), x), said, atol=1e-5)


def test_names_from_the_data_cannot_change_the_card():
    x, y = clouds([0, 1])
    names = ["`|\n# Owned <script>alert(1)</script>", "---\nx: \x1b[31m"]
    features = ["a`b", "| c |", "```\nimport os", "<b>", "$x$"]
    parts = {"x_train": x, "y_train": y, "x_test": x, "y_test": y}
    parts |= {"classes": names, "features": features}
    task = Task("heart-1.x", data=parts, model="logistic")
    run = mmfl.run(Experiment(tasks=[task], clients=3, rounds=1, engine="inline"), "run")
    export_models(Path("run"), Path("out"))
    text = Path("out/heart-1.x/README.md").read_text()
    assert text.replace("\n", "").isprintable()
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == ["# heart-1.x", "## Use it", "## Use it without mmfl", "# x: N x 5, float32"]
    assert text.count("---\n") == 2
    assert text.count("```") == 4
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows)
    assert set(run.model("heart-1.x").predict(x)) <= set(names)
    config = json.loads(Path("out/heart-1.x/config.json").read_text())
    assert config["class_names"] == names


def test_files_that_exist_are_replaced_only_if_that_is_wanted(small):
    mmfl.run(small, "run")
    card = Path("out/image/README.md")
    card.parent.mkdir(parents=True)
    card.write_text("precious")
    said = one_line(StoreError, lambda: export_models(Path("run"), Path("out")))
    assert said.startswith("'out/image/README.md' already exists; name another folder")
    assert [path for path in Path("out").rglob("*") if path.is_file()] == [card]
    export_models(Path("run"), Path("out"), force=True)
    assert card.read_text().startswith("---\nlibrary_name")


def test_a_run_that_is_not_finished_gives_models_that_say_so(small):
    with stored_rounds(small, "run") as rounds:
        next(rounds)
    with pytest.warns(MmflWarning, match="is not finished"):
        export_models(Path("run"), Path("out"))
    text = Path("out/dense/README.md").read_text()
    assert "**Note:** the run in 'run' is not finished" in text
    assert "| rounds | 1 of 3 |" in text
    assert json.loads(Path("out/dense/config.json").read_text())["result"]["status"] == "stopped"
    assert mmfl.load_model("out/dense").predict(np.zeros((1, 16))).shape == (1,)


def test_a_task_that_never_trained_says_so(small):
    wild = Experiment.from_toml(small.to_toml(), sets=["tasks.dense.lr=1e30", "local.epochs=3"])
    with pytest.warns(MmflWarning, match="never trained"):
        mmfl.run(wild, "run")
    with pytest.warns(MmflWarning, match="never trained"):
        export_models(Path("run"), Path("out"))
    assert "**Note:** task 'dense' never trained" in Path("out/dense/README.md").read_text()
    assert "never trained" not in Path("out/image/README.md").read_text()


def test_damage_and_older_runs_are_refused_before_anything_is_written(small):
    mmfl.run(small, "run")
    content = Path("run/models/image.safetensors").read_bytes()
    Path("run/models/image.safetensors").write_bytes(content[:-1])
    said = one_line(StoreError, lambda: export_models(Path("run"), Path("out")))
    assert said == "the run in 'run' is damaged: models/image.safetensors does not match its hash"
    Path("run/models/image.safetensors").write_bytes(content)
    make_older("run")
    said = one_line(StoreError, lambda: export_models(Path("run"), Path("out")))
    assert "does not say how the model of task 'dense' is used" in said
    assert not Path("out").exists()
