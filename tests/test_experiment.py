"""The whole configuration: what it reads, what it refuses and how, and that nothing is lost."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmfl.aggregate import Checks, Mean
from mmfl.allocate import FedFair, RoundRobin, Sequential, Uniform
from mmfl.config import Family, dump
from mmfl.data import HalfClasses, Iid, Named, Npz, Synthetic
from mmfl.engines import Inline, Local
from mmfl.errors import ConfigError
from mmfl.evaluate import Error, Loss
from mmfl.experiment import Clients, Evaluate, Experiment, LocalOverride, LocalTraining, Task
from mmfl.models import Cnn, Mlp
from mmfl.schedule import Constant, Inverse

DESIGN = """
seed = 0
rounds = 60
precision = "float32"                  # or "bf16"
score = "error"
score_split = "validation"
[clients]
count = 40
active = 0.5                           # C; or a column per client, or an availability table
[local]
epochs = 5                             # or steps = 20
batch_size = 32
lr = 0.01                              # or { kind = "inverse", mu = 0.1, gamma = 8.0 }
momentum = 0.9
weight_decay = 1e-4
[allocator]
kind = "fed_fair"
alpha = 3.0
[aggregator]
kind = "mean"
[evaluate]
every = 1
[engine]
kind = "local"
workers = "auto"
[[tasks]]
name = "fashion"
dataset = "fashion_mnist"
model = { kind = "cnn" }
partition = { kind = "half_classes", points = [150, 250], overlap = false }
"""

LEAST = """
rounds = 2
[clients]
count = 4
[[tasks]]
name = "a"
dataset = "mnist"
"""

SECOND_TASK = """
[[tasks]]
name = "b"
dataset = { kind = "synthetic" }
"""


def made(*sets: str, text: str = LEAST) -> Experiment:
    return Experiment.from_toml(text, sets=sets)


def refused(*sets: str, text: str = LEAST) -> str:
    """The one line that says why the experiment is refused."""
    with pytest.raises(ConfigError) as caught:
        Experiment.from_toml(text, sets=sets)
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


# Reading


def test_the_designs_example_loads() -> None:
    assert Experiment.from_toml(DESIGN) == Experiment(
        rounds=60,
        clients=Clients(count=40, active=0.5),
        tasks=(
            Task(
                name="fashion",
                dataset=Named("fashion_mnist"),
                model=Cnn(),
                partition=HalfClasses(share=0.5, points=(150, 250), overlap=False),
            ),
        ),
        seed=0,
        precision="float32",
        score=Error(),
        score_split="validation",
        local=LocalTraining(
            epochs=5, batch_size=32, lr=Constant(0.01), momentum=0.9, weight_decay=1e-4
        ),
        allocator=FedFair(alpha=3.0),
        aggregator=Mean(),
        evaluate=Evaluate(every=1),
        engine=Local(workers="auto"),
    )


def test_what_is_left_out_has_the_designs_defaults() -> None:
    experiment = made()
    assert experiment.seed == 0
    assert experiment.allocator == FedFair(alpha=3.0)
    assert experiment.aggregator == Mean()
    assert experiment.score == Error()
    assert (experiment.score_split, experiment.score_source) == ("validation", "server")
    assert experiment.validation == 0.1
    assert experiment.engine == Local(workers="auto")
    assert experiment.training("a").epochs == 5
    assert experiment.training("a").steps is None


def test_a_file_reads_like_its_text(tmp_path: Path) -> None:
    path = tmp_path / "fair.toml"
    path.write_text(DESIGN, encoding="utf-8")
    assert Experiment.load(path) == Experiment.load(str(path)) == Experiment.from_toml(DESIGN)
    assert Experiment.load(path, sets=["seed=3"]).seed == 3


@pytest.mark.parametrize(
    ("source", "split", "holds"),
    [
        ("server", "validation", True),
        ("server", "test", False),
        ("clients", "validation", False),
        ("clients", "test", False),
    ],
)
def test_validation_is_held_only_where_it_is_used(source: str, split: str, holds: bool) -> None:
    experiment = made(f"score_source={source}", f"score_split={split}")
    assert experiment.holds_validation is holds


# Round trips

positive = st.floats(0, 1e300, exclude_min=True)
share = st.floats(0, 1, exclude_min=True)
below_one = st.floats(0, 1, exclude_max=True)
counts = st.integers(1, 10**6)
samplings = st.sampled_from(["independent", "stratified"])
schedules = st.builds(Constant, positive) | st.builds(Inverse, positive, positive)
allocators = st.one_of(
    st.builds(FedFair, st.floats(1) | st.just(math.inf), samplings, st.integers(0, 9)),
    st.builds(Uniform, samplings, st.integers(0, 9)),
    st.just(RoundRobin()),
    st.just(Sequential()),
)
ranges = st.tuples(counts, counts).map(sorted).map(tuple)
points = st.none() | counts | ranges
partitions = st.one_of(
    st.builds(Iid, points, st.booleans()), st.builds(HalfClasses, share, points, st.booleans())
)
datasets = st.one_of(
    st.builds(Named, st.from_regex(r"[A-Z][a-zé_ 0-9.\"'\\\n-]*", fullmatch=True)),
    st.builds(Npz, st.text(min_size=1)),
    st.builds(
        Synthetic,
        st.integers(2, 99),
        st.lists(counts, min_size=1, max_size=3).map(tuple),
        counts,
        counts,
        st.floats(0, 1e9),
        st.integers(0, 2**63 - 1),
    ),
)
models = st.one_of(
    st.builds(Mlp, st.lists(counts, max_size=3).map(tuple), below_one),
    st.builds(Cnn, st.tuples(counts, counts), st.sampled_from([1, 3, 5]), counts, below_one),
)
kernels = st.sampled_from(["auto", "reference"])
work = st.one_of(
    st.just({}), st.fixed_dictionaries({"epochs": counts}), st.fixed_dictionaries({"steps": counts})
)
settings_of_local = st.builds(
    dict.__or__,
    work,
    st.fixed_dictionaries(
        {},
        optional={
            "batch_size": counts,
            "lr": schedules,
            "momentum": below_one,
            "weight_decay": st.floats(0, 1e9),
            "remainder": st.sampled_from(["keep", "drop"]),
        },
    ),
)


@st.composite
def tasks(draw: st.DrawFn, name: str) -> Task:
    own = draw(settings_of_local)
    flat = draw(st.sets(st.sampled_from(sorted(own)))) if own else set()
    return Task(
        name,
        draw(datasets),
        draw(models),
        draw(partitions),
        kernel=draw(st.none() | kernels),
        local=LocalOverride(**{key: own[key] for key in own if key not in flat}),
        **{key: own[key] for key in flat},
    )


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    count = draw(st.integers(1, 5))
    each = st.lists(st.floats(0, 1), min_size=count, max_size=count).filter(any).map(tuple)
    names = st.from_regex(r"[A-Za-z0-9_é][A-Za-z0-9_.+-]{0,8}", fullmatch=True)
    return Experiment(
        rounds=draw(counts),
        clients=Clients(count, draw(share | each)),
        tasks=tuple(
            draw(tasks(name)) for name in draw(st.lists(names, min_size=1, max_size=3, unique=True))
        ),
        seed=draw(st.integers(0, 2**63 - 1)),
        precision=draw(st.sampled_from(["float32", "bf16"])),
        kernel=draw(kernels),
        score=draw(st.sampled_from([Error(), Loss()])),
        score_split=draw(st.sampled_from(["validation", "test"])),
        score_source=draw(st.sampled_from(["server", "clients"])),
        score_clients=draw(st.none() | counts),
        validation=draw(st.floats(0, 1, exclude_min=True, exclude_max=True)),
        local=LocalTraining(**draw(settings_of_local)),
        allocator=draw(allocators),
        checks=Checks(draw(positive | st.just(math.inf))),
        evaluate=draw(st.builds(Evaluate, counts, counts)),
        engine=draw(
            st.just(Inline())
            | st.builds(Local, st.just("auto") | counts, st.none() | st.floats(0.1, 1e9))
        ),
    )


@given(experiments())
def test_toml_loses_nothing(experiment: Experiment) -> None:
    again = Experiment.from_toml(experiment.to_toml())
    assert again == experiment
    assert again.to_toml() == experiment.to_toml()
    assert again.digest == experiment.digest
    assert hash(again) == hash(experiment)


@settings(max_examples=50)
@given(experiments())
def test_toml_loses_nothing_of_a_resolved_experiment(experiment: Experiment) -> None:
    resolved = experiment.resolved()
    assert Experiment.from_toml(resolved.to_toml()) == resolved
    assert resolved.resolved() == resolved
    assert resolved.kernel == "reference"
    assert {task.kernel for task in resolved.tasks} <= {None, "reference"}


@settings(max_examples=30)
@given(experiments())
def test_resolving_changes_only_what_was_automatic(experiment: Experiment) -> None:
    resolved = experiment.resolved()
    tasks = tuple(
        dataclasses.replace(new, kernel=old.kernel)
        for new, old in zip(resolved.tasks, experiment.tasks, strict=True)
    )
    assert dataclasses.replace(resolved, kernel=experiment.kernel, tasks=tasks) == experiment


@settings(max_examples=30)
@given(experiments())
def test_dictionaries_and_pickle_lose_nothing(experiment: Experiment) -> None:
    assert Experiment.from_dict(dump(experiment)) == experiment
    assert pickle.loads(pickle.dumps(experiment)) == experiment


@pytest.mark.parametrize("name", ["synthetic", "npz", "named", "own:thing"])
def test_a_data_set_named_like_a_kind_comes_back(name: str) -> None:
    experiment = made("tasks.a.dataset.kind=named", f"tasks.a.dataset.name={name}")
    assert experiment.tasks[0].dataset == Named(name)
    assert Experiment.from_toml(experiment.to_toml()) == experiment


# Digest


@settings(max_examples=30)
@given(experiments(), st.sampled_from([Inline(), Local(1), Local(7, timeout=3.0)]))
def test_the_engine_is_not_in_the_digest(experiment: Experiment, engine: Any) -> None:
    assert dataclasses.replace(experiment, engine=engine).digest == experiment.digest


def test_equal_experiments_have_equal_digests() -> None:
    one = made("clients.active=1", "allocator=fed_fair", "tasks.a.partition=iid", "tasks.a.lr=1")
    other = made("clients.active=1.0", "allocator.kind=fed_fair", "tasks.a.local.lr=1.0")
    assert one == other
    assert one.digest == other.digest
    assert len(one.digest) == 64


def test_both_zeros_have_one_digest() -> None:
    one, other = made("local.weight_decay=0.0"), made("local.weight_decay=-0.0")
    assert one == other
    assert one.digest == other.digest


@pytest.mark.parametrize(
    "change",
    [
        "seed=1",
        "rounds=3",
        "clients.count=5",
        "clients.active=0.5",
        "precision=bf16",
        "score=loss",
        "score_split=test",
        "score_source=clients",
        "score_clients=2",
        "validation=0.2",
        "local.lr=0.02",
        "allocator=uniform",
        "checks.max_norm=inf",
        "evaluate.batch_size=7",
        "tasks.a.name=b",
        "tasks.a.dataset=emnist",
        "tasks.a.model=cnn",
        "tasks.a.partition=half_classes",
        "tasks.a.steps=5",
    ],
)
def test_what_decides_the_result_is_in_the_digest(change: str) -> None:
    assert made(change).digest != made().digest


# A task's own local training


def test_a_tasks_steps_replace_epochs_and_the_reverse() -> None:
    training = made("tasks.a.steps=20").training("a")
    assert (training.epochs, training.steps) == (None, 20)
    training = made("local.steps=20", "tasks.a.epochs=2").training("a")
    assert (training.epochs, training.steps) == (2, None)


def test_a_task_overrides_only_its_own_keys() -> None:
    experiment = made(
        "local.momentum=0.5",
        "tasks.a.lr={kind='inverse', mu=0.1, gamma=8.0}",
        "tasks.a.local.weight_decay=0",
        "tasks.a.local.remainder=drop",
        text=LEAST + SECOND_TASK,
    )
    assert experiment.training("b") == experiment.local
    assert experiment.training("a") == LocalTraining(
        epochs=5, lr=Inverse(0.1, 8.0), momentum=0.5, weight_decay=0.0, remainder="drop"
    )


def test_work_takes_the_rate_of_its_round() -> None:
    training = made("tasks.a.lr={kind='inverse', mu=0.5, gamma=8.0}", "tasks.a.steps=3").training(
        "a"
    )
    assert training.work(0).lr == pytest.approx(1 / 4)
    assert training.work(2).lr == pytest.approx(1 / 5)
    assert (training.work(2).epochs, training.work(2).steps) == (None, 3)
    assert made("local.lr=0.3").training("a").work(99).lr == 0.3


@given(settings_of_local)
def test_flat_keys_mean_the_same_as_keys_in_local(own: dict[str, Any]) -> None:
    assert Task("a", "mnist", **own) == Task("a", "mnist", local=LocalOverride(**own))


@pytest.mark.parametrize("key", ["steps=3", "lr=0.1", "remainder='drop'"])
def test_a_key_both_in_the_task_and_in_its_local_is_refused(key: str) -> None:
    text = LEAST.replace('name = "a"', f'name = "a"\n{key}\nlocal = {{ {key} }}')
    name = key.partition("=")[0]
    with pytest.raises(ConfigError, match=rf"^tasks\[0\]: {name} is given both"):
        Experiment.from_toml(text)
    with pytest.raises(ConfigError, match=f"^tasks: {name} is given both"):
        Experiment.from_toml(text, sets=["tasks.a.lr=0.1"])


def test_a_flat_set_wins_over_the_files_own_wherever_that_stands() -> None:
    for own in ("lr = 0.5", "local = { lr = 0.5 }"):
        text = LEAST.replace('name = "a"', f'name = "a"\n{own}')
        made = Experiment.from_toml(text, sets=["tasks.a.lr=0.1"])
        assert made.training("a").lr.rate(0) == 0.1


def test_epochs_and_steps_in_one_task_are_refused() -> None:
    message = refused("tasks.a.steps=3", "tasks.a.epochs=3")
    assert message.startswith("tasks[0]")
    assert "epochs or steps, not both" in message


@pytest.mark.parametrize("value", ["3", "x", "[]"])
def test_a_tasks_local_must_be_a_table(value: str) -> None:
    assert refused(f"tasks.a.local={value}").startswith("tasks[0].local must")
    inline = {"name": "a", "dataset": "x", "lr": 0.1, "local": value}
    with pytest.raises(ConfigError, match=r"^tasks\[0\]: local must be a table"):
        Experiment.from_dict({"rounds": 1, "clients": {"count": 1}, "tasks": [inline]})


def test_an_override_can_be_replaced_key_by_key() -> None:
    changed = dataclasses.replace(LocalOverride(steps=2), momentum=0.5)
    assert changed == LocalOverride(steps=2, momentum=0.5)


# Unknown keys


@pytest.mark.parametrize(
    ("key", "path", "meant"),
    [
        ("seeed", "seeed", "seed"),
        ("clients.actve", "clients.actve", "active"),
        ("local.momentun", "local.momentun", "momentum"),
        ("evaluate.evry", "evaluate.evry", "every"),
        ("checks.max_nrom", "checks.max_nrom", "max_norm"),
        ("allocator.alhpa", "allocator.alhpa", "alpha"),
        ("engine.wokers", "engine.wokers", "workers"),
        ("local.lr.gama", "local.lr.gama", "gamma"),
        ("tasks.b.partiton", "tasks[1].partiton", "partition"),
        ("tasks.b.momentun", "tasks[1].momentun", "momentum"),
        ("tasks.b.local.setps", "tasks[1].local.setps", "steps"),
        ("tasks.b.model.hiden", "tasks[1].model.hiden", "hidden"),
        ("tasks.b.dataset.clases", "tasks[1].dataset.clases", "classes"),
        ("tasks.b.partition.pionts", "tasks[1].partition.pionts", "points"),
    ],
)
def test_an_unknown_key_is_refused_with_its_path_and_a_suggestion(
    key: str, path: str, meant: str
) -> None:
    message = refused(
        "allocator=fed_fair",
        "engine=local",
        "local.lr={kind='inverse', mu=0.1, gamma=8.0}",
        "tasks.b.model=mlp",
        "tasks.b.partition=iid",
        f"{key}=1",
        text=LEAST + SECOND_TASK,
    )
    assert message.startswith(f"{path} is not a known key; did you mean {meant!r}?")


def test_an_unlikely_key_gets_the_list_of_known_ones() -> None:
    assert refused("clients.zzzz=1").endswith("zzzz is not a known key; known: active, count")


# Bad input


@pytest.mark.parametrize(
    ("sets", "parts"),
    [
        ("clients.count=0", ["clients.count", "got 0"]),
        ("clients.count=2.0", ["clients.count", "got 2.0"]),
        ("clients.count=true", ["clients.count", "got True"]),
        ("clients=3", ["clients", "got 3"]),
        ("rounds=0", ["rounds", "got 0"]),
        ("rounds=true", ["rounds", "got True"]),
        ("seed=-1", ["seed", "got -1"]),
        ("seed=1.5", ["seed", "got 1.5"]),
        ("allocator=fed_fair allocator.alpha=0.5", ["allocator.alpha", "1", "got 0.5"]),
        ("allocator=fed_fair allocator.alpha='3'", ["allocator.alpha", "number", "got '3'"]),
        ("allocator=fed_fair allocator.alpha=true", ["allocator.alpha", "number", "got True"]),
        ("allocator=fed_fair allocator.alpha=nan", ["allocator.alpha", "got nan"]),
        ("allocator=fed_fair allocator.floor=-1", ["allocator.floor", "got -1"]),
        ("allocator=fedfair", ["allocator.kind", "'fedfair'", "did you mean 'fed_fair'?"]),
        ("dataset=3", ["dataset is not a known key"]),
        ("allocator=3", ["allocator", "got 3"]),
        ("local.momentum=1.5", ["local.momentum", "less than 1", "got 1.5"]),
        ("local.momentum=true", ["local.momentum", "number", "got True"]),
        ("local.lr=0", ["local.lr", "greater than 0", "got 0"]),
        ("local.lr=fast", ["local.lr", "number", "got 'fast'"]),
        ("local.lr={kind='inverse',mu=0.1}", ["local.lr.gamma", "is missing"]),
        ("local.epochs=3 local.steps=3", ["local", "epochs or steps, not both"]),
        ("local.epochs=0", ["local.epochs", "got 0"]),
        ("local.weight_decay=inf", ["local.weight_decay", "got inf"]),
        ("local.remainder=pad", ["local.remainder", "'keep' or 'drop'", "got 'pad'"]),
        ("clients.active=0", ["clients.active", "above 0"]),
        ("clients.active=1.5", ["clients.active", "(0, 1]", "got 1.5"]),
        ("clients.active=true", ["clients.active", "got True"]),
        ("clients.active=[1,0.5]", ["clients", "active", "one rate per client (4)", "got 2"]),
        ("clients.active=[1,1,1,2]", ["clients.active", "got [1, 1, 1, 2]"]),
        ("clients.active=[]", ["clients.active", "got []"]),
        ("tasks=[]", ["at least one task is needed"]),
        ("tasks=3", ["tasks", "got 3"]),
        ("tasks.a.name=b/c", ["tasks[0].name", "got 'b/c'"]),
        ("tasks.a.name=../c", ["tasks[0].name", "got '../c'"]),
        ("tasks.a.name='b\\n'", ["tasks[0].name", "got 'b"]),
        ("tasks.a.momentum=1.5", ["tasks[0]", "momentum", "less than 1", "got 1.5"]),
        ("tasks.a.partition={kind='iid',points=[5,3]}", ["points", "low <= high", "got [5, 3]"]),
        ("tasks.a.partition={kind='iid',points=0}", ["tasks[0].partition.points", "got 0"]),
        ("tasks.a.partition={kind='iid',overlap='yes'}", ["overlap", "got 'yes'"]),
        ("tasks.a.partition={kind='iid',overlap=1}", ["overlap", "got 1"]),
        ("tasks.a.partition={kind='half_classes',share=0}", ["partition.share", "got 0"]),
        ("tasks.a.model={kind='cnn',kernel=2}", ["tasks[0].model", "kernel must be odd", "got 2"]),
        ("tasks.a.model={kind='mlp',dropout=1}", ["tasks[0].model.dropout", "got 1"]),
        ("tasks.a.dataset={kind='synthetic',classes=1}", ["tasks[0].dataset.classes", "got 1"]),
        ("tasks.a.dataset=3", ["tasks[0].dataset", "got 3"]),
        ("precision=float64", ["precision", "'float32' or 'bf16'", "got 'float64'"]),
        ("kernel=fast", ["kernel", "got 'fast'"]),
        ("score=accuracy", ["score.kind", "'accuracy'", "error, loss"]),
        ("score_split=train", ["score_split", "got 'train'"]),
        ("validation=1", ["validation", "less than 1", "got 1"]),
        ("validation=0", ["validation", "greater than 0", "got 0"]),
        ("checks.max_norm=0", ["checks.max_norm", "got 0"]),
        ("engine=local engine.workers=0", ["engine.workers must", "got 0"]),
        ("engine=local engine.workers=two", ["engine.workers must", '"auto"', "got 'two'"]),
        ("engine=local engine.timeout=0", ["engine.timeout", "got 0"]),
        ("engine=cluster", ["engine.kind", "'cluster'", "inline, local"]),
        ("aggregator=median", ["aggregator.kind", "'median'"]),
        (f"clients.active={10**400}", ["clients.active", "got 1000"]),
    ],
)
def test_bad_values_are_one_sentence(sets: str, parts: list[str]) -> None:
    message = refused(*sets.split(" "))
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("rounds = ", ["not valid TOML"]),
        ("rounds = 1\nrounds = 2", ["not valid TOML"]),
        (f"seed = {'9' * 5000}\n{LEAST}", ["not valid TOML"]),
        (f"seed = {'[' * 5000}{']' * 5000}\n{LEAST}", ["not valid TOML"]),
        ("", ["rounds is missing"]),
        (LEAST.replace("rounds = 2", ""), ["rounds is missing"]),
        (LEAST.replace("[clients]\ncount = 4", ""), ["clients is missing"]),
        (LEAST.replace("count = 4", ""), ["clients.count is missing"]),
        (LEAST[: LEAST.index("[[tasks]]")], ["tasks is missing"]),
        (LEAST.replace('dataset = "mnist"', ""), ["tasks[0].dataset is missing"]),
        (LEAST.replace("[[tasks]]", "[tasks]"), ["tasks must"]),
        (LEAST + SECOND_TASK.replace('"b"', '"a"'), ["two tasks are called 'a'", "must differ"]),
        (f'"line\\nbreak" = 1\n{LEAST}', ["is not a known key"]),
    ],
    ids=lambda value: value.strip()[:20] if isinstance(value, str) else "",
)
def test_bad_files_are_one_sentence(text: str, parts: list[str]) -> None:
    message = refused(text=text)
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize(
    "change", ["tasks.a.lr=0", "tasks.a.nme=1", "tasks.a.model=resnet", "tasks=[{name='a'}]"]
)
def test_one_mistake_in_a_task_is_counted_once(change: str) -> None:
    assert "more)" not in refused(change)


def test_several_mistakes_are_counted() -> None:
    assert refused("rounds=0", "seed=-1", "clients.count=0").endswith("(and 2 more)")


def test_files_that_cannot_be_read_are_one_sentence(tmp_path: Path) -> None:
    latin = tmp_path / "latin.toml"
    latin.write_bytes(LEAST.encode() + "# é".encode("latin-1"))
    for path, rule in [
        (tmp_path / "missing.toml", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (latin, "not UTF-8 text"),
    ]:
        with pytest.raises(ConfigError) as caught:
            Experiment.load(path)
        assert str(caught.value) == f"cannot read {str(path)!r}: {rule}"


def test_a_mistake_in_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "fair.toml"
    path.write_text(LEAST.replace("count = 4", "count = 0"))
    with pytest.raises(ConfigError) as caught:
        Experiment.load(path)
    assert str(caught.value).startswith(f"{path}: clients.count must")


# Imports

OWN = """
from typing import ClassVar
from mmfl.config import component

@component
class Mine:
    size: int = 1
    mergeable: ClassVar[bool] = True
    def allocate(self): ...
    def aggregate(self): ...
    def open(self): ...
    def build(self): ...
    def split(self): ...
    def load(self): ...
    def difficulty(self): ...
    def rate(self): ...
"""

PLACES = [
    "aggregator",
    "allocator",
    "engine",
    "local.lr",
    "score",
    "tasks.a.dataset",
    "tasks.a.local.lr",
    "tasks.a.model",
    "tasks.a.partition",
]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The import path of a class of a user's own, in a module that is not imported yet."""
    name = "own_parts_of_a_user"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield f"{name}:Mine"
    sys.modules.pop(name, None)


def at(experiment: Experiment, place: str) -> Any:
    here: Any = experiment
    for key in place.split("."):
        here = (
            next(t for t in here if t.name == key)
            if isinstance(here, tuple)
            else getattr(here, key)
        )
    return here


def test_the_places_are_all_there_are() -> None:
    holders = {
        Experiment: "",
        LocalTraining: "local.",
        LocalOverride: "tasks.a.local.",
        Task: "tasks.a.",
    }
    found = [
        prefix + name
        for holder, prefix in holders.items()
        for name, hint in typing.get_type_hints(holder, include_extras=True).items()
        if any(isinstance(part, Family) for part in getattr(hint, "__metadata__", ()))
    ]
    assert sorted(found) == PLACES


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("bare", [True, False])
def test_imports_are_refused_unless_allowed(own: str, place: str, bare: bool) -> None:
    change = f"{place}={own}" if bare else f"{place}={{kind='{own}'}}"
    message = refused(change)
    assert place.replace("tasks.a", "tasks[0]") in message
    assert f"'{own}' would import code; pass --allow-imports" in message
    assert own.partition(":")[0] not in sys.modules


@pytest.mark.parametrize("place", PLACES)
def test_imports_are_followed_when_allowed(own: str, place: str) -> None:
    changes = [f"{place}={{kind='{own}'}}", f"{place}.size=7"]
    experiment = Experiment.from_toml(LEAST, sets=changes, allow_imports=True)
    mine = at(experiment, place)
    assert type(mine).__name__ == "Mine"
    assert mine.size == 7
    assert Experiment.from_toml(experiment.to_toml(), allow_imports=True) == experiment
    with pytest.raises(ConfigError, match="--allow-imports"):
        Experiment.from_toml(experiment.to_toml())


@pytest.mark.parametrize("place", PLACES)
def test_a_bare_import_path_is_followed_when_allowed(own: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(LEAST)
    experiment = Experiment.load(path, sets=[f"{place}={own}"], allow_imports=True)
    assert at(experiment, place).size == 1


# Sequences of --set


def test_sets_apply_in_order() -> None:
    assert made("seed=1", "seed=2").seed == 2
    assert made("allocator=fed_fair", "allocator.alpha=inf").allocator == FedFair(math.inf)
    assert made("allocator.kind=fed_fair", "allocator.alpha=5").allocator == FedFair(5.0)
    alpha_then_kind = ["allocator.alpha=5", "allocator.kind=uniform", "allocator.floor=2"]
    assert made(*alpha_then_kind, text=DESIGN).allocator == Uniform(floor=2)
    same_kind = ["allocator.alpha=5", "allocator.kind=fed_fair"]
    assert made(*same_kind, text=DESIGN).allocator == FedFair(5.0)


def test_sets_reach_every_level() -> None:
    experiment = made(
        "clients.active=[1, 0.5, 0, 1]",
        "tasks.a.steps=7",
        "tasks.1.model={kind='mlp', hidden=[3, 4]}",
        "tasks.b.dataset.classes=9",
        "tasks.a.dataset.kind=npz",
        "tasks.a.dataset.path=data/x.npz",
        text=LEAST + SECOND_TASK,
    )
    assert experiment.clients.active == (1.0, 0.5, 0.0, 1.0)
    assert experiment.task("a").local == LocalOverride(steps=7)
    assert experiment.task("a").dataset == Npz("data/x.npz")
    assert experiment.task("b").model == Mlp(hidden=(3, 4))
    assert experiment.task("b").dataset == Synthetic(classes=9)


# JSON Schema


def test_the_schema_is_json_and_knows_every_key() -> None:
    schema = json.loads(json.dumps(Experiment.json_schema(), allow_nan=False))
    assert set(schema["properties"]) == {field.name for field in dataclasses.fields(Experiment)}
    assert schema["required"] == ["rounds", "clients", "tasks"]
    assert schema["additionalProperties"] is False


def test_the_schema_knows_every_kind() -> None:
    text = json.dumps(Experiment.json_schema())
    for kind in ["fed_fair", "uniform", "mean", "local", "cnn", "half_classes", "npz", "inverse"]:
        assert f'"const": "{kind}"' in text


def test_the_schema_lets_a_task_have_every_key_of_local() -> None:
    task = Experiment.json_schema()["$defs"]["Task"]
    own = {field.name for field in dataclasses.fields(LocalOverride)}
    assert task.get("additionalProperties") is not False or own <= set(task["properties"])
