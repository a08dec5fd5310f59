"""What a trained model takes and says: raw examples, names of classes, numbers, probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mmfl
from mmfl import Experiment, Task
from mmfl.errors import DataError, InputError
from support.helpers import one_line
from support.made_data import clouds

pytestmark = pytest.mark.filterwarnings("ignore:the (data|table)")


@pytest.mark.parametrize("normalize", ["none", "standard"])
def test_a_regression_gives_its_numbers_and_reproduces_r2(normalize):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)) * [1, 10, 0.1, 1] + 3
    y = np.stack([x[:, 0] - x[:, 1], x[:, 2] + 5], axis=1)
    data = (x[:150], y[:150], x[150:], y[150:])
    for targets in (y, y[:, 0]):
        parts = (data[0], targets[:150], data[2], targets[150:])
        task = Task("dose", data=parts, model="mlp", loss="mse", normalize=normalize, lr=1e-4)
        run = mmfl.run(
            Experiment(tasks=[task], clients=4, rounds=2, engine="inline"), f"run-{targets.ndim}"
        )
        model = run.model("dose")
        said = model.predict(x[150:])
        assert said.shape == targets[150:].shape
        spread = targets[:150].astype("f4").astype("f8").var(axis=0).mean()
        r2 = 1 - ((said.astype("f8") - targets[150:]) ** 2).mean() / spread
        assert r2 == pytest.approx(run.tasks["dose"]["metric"], rel=1e-4)
        assert "no probabilities" in one_line(
            InputError, lambda m=model: m.predict_probabilities(x)
        )


def test_yes_or_no_questions_are_answered():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)).astype("f4")
    y = (x[:, :3] > 0).astype("f4")
    task = Task("tags", data=(x, y, x, y), model="logistic", loss="binary_cross_entropy")
    run = mmfl.run(Experiment(tasks=[task], clients=2, rounds=3, engine="inline"), "run")
    model = run.model("tags")
    said, chances = model.predict(x), model.predict_probabilities(x)
    assert said.dtype == np.int64
    assert ((chances > 0.5) == said).all()
    assert (said == y).mean() == pytest.approx(run.tasks["tags"]["metric"])


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [(["sick", "well"], "U"), ([3, 7, 9], "i"), ([1, 2], "i"), (["0", "zwei"], "U")],
)
def test_classes_are_called_what_the_data_calls_them(labels, dtype):
    x, y = clouds(labels)
    task = Task("heart", data=(x, y, x, y), model="mlp", normalize="standard")
    run = mmfl.run(Experiment(tasks=[task], clients=3, rounds=3, engine="inline"), "run")
    said = run.model("heart").predict(x)
    assert said.dtype.kind == dtype
    assert (said == y).mean() == pytest.approx(run.tasks["heart"]["accuracy"])
    assert (said == y).mean() > 0.6


def test_the_same_data_with_other_names_is_other_data():
    x, y = clouds([0, 1])
    said = {}
    for names in (["no", "yes"], ["low", "high"], None):
        parts = {"x_train": x, "y_train": y, "x_test": x, "y_test": y}
        parts |= {} if names is None else {"classes": names}
        task = Task("heart", data=parts, model="logistic")
        run = mmfl.run(
            Experiment(tasks=[task], clients=3, rounds=1, engine="inline"), f"run-{names}"
        )
        said[str(names)] = set(run.model("heart").predict(x).tolist())
        assert said[str(names)] <= set(names or [0, 1])
    assert len(said) == 3


def test_a_frame_is_read_by_the_names_of_its_columns():
    pd = pytest.importorskip("pandas")
    x, y = clouds([False, True])
    frame = pd.DataFrame({"age": x[:, 0], "sex": np.where(x[:, 1] > 2, "f", "m"), "dose": x[:, 2]})
    frame["hospital"], frame["class"] = np.arange(len(x)) % 3, y
    data = mmfl.from_frame(frame, target="class", client="hospital", test=frame)
    task = Task("heart", data=data, model="logistic", partition="by_group")
    run = mmfl.run(Experiment(tasks=[task], clients=3, rounds=3, engine="inline"), "run")
    model = run.model("heart")
    assert model.description.features == (("age", None), ("sex", ("f", "m")), ("dose", None))
    said = model.predict(frame)
    assert said.dtype == bool
    assert (said == y).mean() == pytest.approx(run.tasks["heart"]["accuracy"])
    shuffled = frame[["dose", "class", "sex", "age"]]
    assert (model.predict(shuffled) == said).all()
    assert (model.predict(data.x_test) == said).all()
    assert model.predict(frame[:0]).shape == (0,)
    for wrong, words in (
        (frame.drop(columns="age"), "x has no column 'age', which the model was trained with"),
        (frame.assign(sex="x"), "column 'sex' holds 'x', which the training data did not have"),
        (frame.assign(age=np.nan), "column 'age' has a missing value in row 0"),
        (frame.assign(dose="much"), "column 'dose' must hold numbers, got 'much'"),
    ):
        assert words in one_line(DataError, lambda w=wrong: model.predict(w))


def test_inputs_that_do_not_fit_are_one_sentence(small):
    model = mmfl.run(small, "run").model("image")
    shape = model.description.example
    x = np.zeros((3, *shape), np.float32)
    assert model.predict(x).shape == model.predict(x.tolist()).shape == (3,)
    assert (model.predict(torch.tensor(x, requires_grad=True)) == model.predict(x)).all()
    assert model.predict(x[:0]).shape == (0,)
    assert model.predict_probabilities(x[:0]).shape == (0, 4)
    for wrong, words in (
        (x[0], "for a single example, pass x[None]"),
        (x[:, :-1], "must be a batch of examples of shape (8, 8), got shape (3, 7, 8)"),
        (1.0, "got shape ()"),
        ([[1], [1, 2]], "must be an array of numbers"),
        (["a"], "must be an array of numbers, got ['a']"),
        (x * np.nan, "only finite float32 values"),
        (x.astype(float) + 1e300, "only finite float32 values"),
    ):
        assert words in one_line(InputError, lambda w=wrong: model.predict(w))
    assert "batch_size" in one_line(InputError, lambda: model.predict(x, batch_size=0))


def test_bytes_are_not_taken_for_shares():
    x, y = clouds([0, 1])
    pixels = (x.clip(0, 1) * 255).astype(np.uint8)[:, :4].reshape(-1, 2, 2)
    task = Task("icon", data=(pixels, y, pixels, y), model="mlp")
    model = mmfl.run(Experiment(tasks=[task], clients=2, rounds=1, engine="inline"), "run").model(
        "icon"
    )
    assert model.description.scaling == ([127.5], [127.5])
    assert (model.predict(pixels.astype(float)) == model.predict(pixels)).all()
    for wrong in (pixels / 255, pixels.astype(int) + 1, pixels.astype(int) - 1):
        said = one_line(InputError, lambda w=wrong: model.predict(w))
        assert said.startswith("x must be bytes from 0 to 255, as the training data was, got")
