"""Every mistake in an experiment is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

import mmfl
from mmfl.errors import ConfigError, InputError
from mmfl.experiment import Experiment
from mmfl.market import Market
from mmfl.runs import stored_rounds
from support.helpers import LEAST, SECOND_TASK, one_line, refused

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
        ("clients=0", ["clients", "got 0"]),
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
        ("clients.active=0", ["clients.active", "greater than 0"]),
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
        ("kernel=quick", ["kernel", "got 'quick'"]),
        ("score=accuracy", ["score.kind", "'accuracy'", "error, loss"]),
        ("score_split=train", ["score_split", "got 'train'"]),
        ("validation=1", ["validation", "less than 1", "got 1"]),
        ("validation=0", ["validation", "greater than 0", "got 0"]),
        ("checks.max_norm=0", ["checks.max_norm", "got 0"]),
        ("engine=local engine.workers=0", ["engine.workers must", "got 0"]),
        ("engine=local engine.workers=two", ["engine.workers must", '"auto"', "got 'two'"]),
        ("engine=local engine.timeout=0", ["engine.timeout", "got 0"]),
        ("engine=cluster", ["engine.kind", "'cluster'", "inline, local"]),
        ("aggregator=medoid", ["aggregator.kind", "'medoid'"]),
        (
            "aggregator={kind='trimmed_mean',trim=0.5}",
            ["aggregator.trim", "less than 0.5", "got 0.5"],
        ),
        ("aggregator={kind='multi_krum',bad=-1}", ["aggregator.bad", "got -1"]),
        ("aggregator={kind='clipped_mean',norm=0}", ["aggregator.norm", "greater than 0"]),
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
        (f"{LEAST}\nx = {'[' * 5000}{']' * 5000}\n", ["not valid TOML", "(at line 9)"]),
        (
            "seed = 1\nx = [\n" + "[\n" * 5000 + "]\n" * 5001,
            ["brackets are nested too deeply (at l"],
        ),
        ("", ["rounds is missing"]),
        (LEAST.replace("rounds = 2", ""), ["rounds is missing"]),
        (LEAST.replace("[clients]\ncount = 4", ""), ["clients is missing"]),
        (LEAST.replace("count = 4", ""), ["clients.count is missing"]),
        (LEAST[: LEAST.index("[[tasks]]")], ["tasks is missing"]),
        (LEAST.replace('dataset = "mnist"', ""), ["tasks[0].dataset is missing"]),
        (LEAST.replace("[[tasks]]", "[tasks]"), ["tasks must"]),
        (LEAST + SECOND_TASK.replace('"b"', '"a"'), ["two tasks are named 'a'", "must be unique"]),
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
    assert "more error" not in refused(change)


def test_several_mistakes_are_counted() -> None:
    assert refused("rounds=0", "seed=-1", "clients.count=0").endswith("(and 2 more errors)")


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


# Keys that nobody would write


def test_a_strange_key_is_shown_and_a_long_one_cut() -> None:
    for key, shown in {
        r"a\u001b[31mb": r"'a\x1b[31mb' is not a known key; known: ",
        "x" * 5000: f"'{'x' * 56}... is not a known key; known: ",
        " ": "' ' is not a known key; known: ",
    }.items():
        assert refused(text=f'"{key}" = 1\n{LEAST}').startswith(shown)


def test_a_long_value_is_cut() -> None:
    text = f"{LEAST}partition = {{ kind = 'iid', points = {[1] * 500} }}"
    assert len(refused(text=text)) < 200
    assert len(refused("allocator.kind=" + "y" * 9000)) < 300


def test_there_are_not_more_workers_than_numbers() -> None:
    assert "engine.workers must be a whole number >= 1" in refused("engine.workers=2147483648")


@pytest.mark.parametrize("load", [Experiment.load, Market.load])
def test_a_file_of_two_gigabytes_is_not_read(load):
    with Path("large.toml").open("wb") as file:
        file.truncate(2 << 30)
    message = one_line(ConfigError, lambda: load("large.toml"))
    assert message == (
        "cannot read 'large.toml': it has 2,147,483,648 bytes; the limit is 67,108,864"
    )


@pytest.mark.parametrize(
    "act",
    [
        mmfl.run,
        mmfl.rounds,
        mmfl.plan,
        lambda it: stored_rounds(it, "out"),
        lambda it: mmfl.compare({"one": it}, [0], "out"),
    ],
    ids=["run", "rounds", "plan", "stored_rounds", "compare"],
)
@pytest.mark.parametrize("given", [None, "s.toml"])
def test_what_is_not_an_experiment_is_one_sentence(act, given):
    said = one_line(InputError, lambda: act(given))
    assert said.startswith("expected an Experiment, got ")
    assert said.endswith("; read a file with Experiment.load")
    assert list(Path().iterdir()) == []


def test_a_comparison_of_a_file_name_is_one_sentence():
    said = one_line(InputError, lambda: mmfl.compare("s.toml", [0], "out"))
    assert said == "a comparison needs a mapping from each variant's name to its experiment"
