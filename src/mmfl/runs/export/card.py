"""A model card: what a model is, how good it is, and how to use it, with mmfl and without."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mmfl.errors import one_line, shorten
from mmfl.experiment import ModelDescription

__all__ = ["CardFacts", "Result", "write_card"]

_NAMED = 20
"""How many names of classes or features a card lists; config.json has all."""


@dataclass(frozen=True)
class Result:
    """How good a model is, and what it was trained on.

    Attributes:
        metric: The metric's kind.
        better: Whether a "higher" or a "lower" value is better.
        value: Its value on the test split at the last evaluation; None if there was none.
        loss: The loss on the test split.
        status: How the run ended.
        round: The round that the weights are of.
        rounds: How many rounds were planned.
        accepted: Updates that were accepted.
        failed: Turns that failed.
        clients: How many clients there were.
        data_sha256: The SHA-256 of the task's data, as `mmfl verify` computes it.
        fingerprint: Of the run; "" if it is not finished.
        made_with: Versions, by name.
    """

    metric: str
    better: str
    value: float | None
    loss: float | None
    status: str
    round: int
    rounds: int
    accepted: int
    failed: int
    clients: int | None
    data_sha256: str | None
    fingerprint: str
    made_with: dict[str, str]


@dataclass(frozen=True)
class CardFacts:
    """All that a card says.

    Attributes:
        description: How the model is built and used.
        result: How good it is.
        others: The other tasks of the run.
        remarks: Sentences about what is not as it should be.
        source: What builds the network with torch alone; None if that is not enough.
    """

    description: ModelDescription
    result: Result
    others: Sequence[str]
    remarks: Sequence[str]
    source: str | None


def write_card(facts: CardFacts) -> str:
    """The card as Markdown; names that come from data cannot change its structure."""
    about = facts.description
    together = ""
    if facts.others:
        together = f", at the same time as {_list(facts.others)}"
    clients = "" if facts.result.clients is None else f" on {facts.result.clients:,} clients"
    parts = [
        "---\nlibrary_name: pytorch\ntags:\n- federated-learning\n- mmfl\n---",
        f"# {_escape(about.task)}",
        f"A model of the task {_code(about.task)}, trained by mmfl with federated "
        f"learning{clients}{together}.",
        *(f"**Note:** {_escape(remark)}." for remark in facts.remarks),
        _table(_find_rows(facts)),
        "The metric is on the test split of the task's data. Nothing hides what the weights reveal "
        "about the clients' data: there is no differential privacy.",
        "## Use it",
        "```python\nimport mmfl\n\n"
        f"model = mmfl.load_model({_find_arguments(about)})\n"
        f"model.predict(x)  # {_describe_input(about)}\n```",
        "`x` is as it is in the data set: the scaling is part of the model." + _describe_own(about),
        "## Use it without mmfl",
        _describe_plain(facts),
    ]
    return "\n\n".join(parts) + "\n"


def _find_rows(facts: CardFacts) -> list[tuple[str, str]]:
    about, result = facts.description, facts.result
    rows = [
        (f"{result.metric} ({result.better} is better)", _number(result.value)),
        ("loss", _number(result.loss)),
        ("rounds", f"{result.round:,} of {result.rounds:,}"),
        ("updates", f"{result.accepted:,} accepted, {result.failed:,} failed"),
        ("network", _code(json.dumps(dict(about.model)))),
        ("an example", f"shape {tuple(about.example)}, {about.dtype}"),
    ]
    if about.features is not None:
        rows.append(("columns", _list(feature.name for feature in about.features)))
    if about.classes is not None:
        names = about.class_names or range(about.classes)
        rows.append((f"{about.classes:,} classes", _list(map(str, names))))
    rows += [
        ("SHA-256 of the data", _code(result.data_sha256 or "not known")),
        ("fingerprint of the run", _code(result.fingerprint or "none: it is not finished")),
        ("made with", ", ".join(f"{_escape(k)} {_escape(v)}" for k, v in result.made_with.items())),
    ]
    return rows


def _find_arguments(about: ModelDescription) -> str:
    kind = about.model["kind"]
    if ":" not in kind:
        return '"."'
    return '".", network=...' if kind.startswith("in_memory:") else '".", allow_imports=True'


def _describe_own(about: ModelDescription) -> str:
    kind = about.model["kind"]
    if ":" not in kind:
        return ""
    if kind.startswith("in_memory:"):
        return " `network` is the `nn.Module`, or the function that builds it."
    return f" The network is your own: the module of {_code(kind)} must be importable."


def _describe_input(about: ModelDescription) -> str:
    sizes = " x ".join(map(str, ("N", *about.example)))
    table = ", or a DataFrame with these columns" if about.features is not None else ""
    return f"{sizes}, {about.dtype}{table}"


def _describe_plain(facts: CardFacts) -> str:
    """How the network is built and used with torch and safetensors alone, as far as possible."""
    about = facts.description
    prepared = _write_preparation(about)
    if facts.source is None or prepared is None:
        kind = about.model["kind"]
        how = f"mmfl builds the network {_code(kind)}"
        if ":" in kind:
            name = re.sub(r"^in_memory:(.*)-\w+$", r"\1", kind)
            how = f"The network is your own ({_code(name)})"
        return (
            f"{how}. `model.safetensors` has its weights, as `load_state_dict` takes them; "
            "`config.json` says how examples are scaled (`mean`, `std`) and what the classes are "
            "called."
        )
    lines = [
        "import json\n\nimport torch\n"
        "from safetensors.torch import load_file\nfrom torch import nn",
        'with open("config.json") as file:\n    about = json.load(file)',
        f"network = {facts.source}\n"
        'network.load_state_dict(load_file("model.safetensors"))\nnetwork.eval()',
        f"# x: {_describe_input(about).partition(', or')[0]}\n{prepared}\n"
        f"with torch.no_grad():\n    outputs = network(x)\n{_write_answer(about)}",
    ]
    return "```python\n" + "\n\n".join(lines) + "\n```"


def _write_preparation(about: ModelDescription) -> str | None:
    """What `Inputs` does with a batch, as code; None for examples that it does not cover."""
    sizes = len(about.example)
    if about.precision != "float32" or about.dtype == "int64" or sizes > 3:
        return None
    lines = ["x = torch.as_tensor(x).float()"]
    if about.mean is not None:
        lines.append('x = (x - torch.tensor(about["mean"])) / torch.tensor(about["std"])')
    if sizes == 2 and not about.series:
        lines.append("x = x.unsqueeze(1)")
    elif sizes == 3:
        lines.append("x = x.permute(0, 3, 1, 2).contiguous()")
    return "\n".join(lines)


def _write_answer(about: ModelDescription) -> str:
    if about.answers == "yes or no":
        return "answers = (outputs > 0).long()"
    if about.answers == "numbers":
        return f"answers = outputs.reshape({', '.join(map(str, (-1, *about.target)))})"
    if about.class_names is None:
        return "answers = outputs.argmax(1)"
    return 'answers = [about["class_names"][number] for number in outputs.argmax(1)]'


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {_bar(a)} | {_bar(b)} |" for a, b in rows)])


def _bar(text: str) -> str:
    return text.replace("|", "\\|")


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.6g}"


def _list(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    return ", ".join(map(_code, found[:_NAMED])) + more


def _code(text: Any) -> str:
    """A text from anywhere as code on one line."""
    return f"`{shorten(one_line(text), 300).replace('`', chr(39)) or ' '}`"


def _escape(text: Any) -> str:
    """A text from anywhere as plain words on one line."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&!$])", r"\\\1", shorten(one_line(text), 300))
