"""What a node answers: a client's turn, its evaluations, and what it holds.

A node serves one client. What it trains with is either the client's shard of the experiment's data
or the node's own data, which only its own configuration can name (see `mmfl.engines.flower.data`).
The server sends the experiment with every message. It is parsed like any file, and it cannot make
the node import anything, unless the node's own configuration allows that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import RecordDict

from mmfl.engines.flower.data import NodeSettings, open_data
from mmfl.engines.flower.records import pack, unpack_array, unpack_arrays, unpack_table
from mmfl.errors import InputError, MmflError
from mmfl.exchange import (
    DONE,
    Address,
    ClientFailure,
    Evaluation,
    EvaluationFailure,
    Flat,
    Job,
    LocalWork,
    Split,
)
from mmfl.experiment import Experiment
from mmfl.system.user_code import describe_error, pass_on

if TYPE_CHECKING:
    from mmfl.train import Trainer

__all__ = ["Node", "describe_mistake"]


def describe_mistake(said: str) -> RecordDict:
    """The answer of a node that cannot answer."""
    return pack({"failed": ["raised", said]})


class Node:
    """Answers messages; keeps its data and networks from one to the next.

    Args:
        settings: The node's own configuration.
    """

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._text: str | None = None
        self._experiment: Experiment
        self._trainer: Trainer

    def answer(self, kind: str, content: RecordDict) -> RecordDict:
        """The answer to a message, whatever goes wrong."""
        try:
            table = unpack_table(content)
            self._prepare(table)
            if kind == "query":
                return self._describe()
            if kind == "train":
                return self._train(table, content)
            if kind == "evaluate":
                return self._evaluate(table, content)
            raise InputError(f"there are no messages of type {kind!r}")
        except BaseException as error:  # code of the node's owner may raise anything
            pass_on(error)
            said = str(error) if isinstance(error, MmflError) else describe_error(error)
            return describe_mistake(said)

    def _prepare(self, table: Mapping[str, Any]) -> None:
        """Serve the experiment of a message from now on."""
        from mmfl.train import Trainer

        text, known = table.get("experiment"), table.get("data")
        if not isinstance(text, str) or not isinstance(known, dict):
            raise InputError("the message names no experiment")
        if text == self._text:
            return
        self._text = None
        allow = self._settings.allow_imports
        experiment = Experiment.from_toml(text, allow_imports=allow).resolved()
        arrays, shards = open_data(experiment, self._settings, known)
        self._trainer = Trainer.of(experiment, arrays, federation=shards)
        self._experiment = experiment
        self._text = text

    def _describe(self) -> RecordDict:
        """Which client this is, what it holds, and what it asks for its work."""
        client = self._settings.client
        holds = {
            task.name: len(self._trainer.federation.shard(task.name, client))
            for task in self._experiment.tasks
        }
        return pack({"client": client, "holds": holds, "bids": dict(self._settings.bids)})

    def _train(self, table: Mapping[str, Any], content: RecordDict) -> RecordDict:
        """A turn."""
        run, round_, task, client, version = table["address"]
        address = Address(run, round_, task, client, version)
        self._check_client(client)
        size = self._trainer.layout(task).size
        weights = unpack_array(unpack_arrays(content, "weights")[task], size)
        job = Job(address, int(table["seed"]), LocalWork(**table["work"]))
        found = self._trainer.train(job, weights)
        if isinstance(found, ClientFailure):
            return pack({"address": address, "failed": [found.reason, found.detail]})
        done = {name: getattr(found, name) for name in DONE if name != "norm"}
        assert found.delta is not None
        flat = getattr(found.delta, "flat")  # noqa: B009
        return pack({"address": address, **done}, delta={"flat": flat})

    def _evaluate(self, table: Mapping[str, Any], content: RecordDict) -> RecordDict:
        """The models of some tasks on the client's own examples."""
        client, split = table["client"], table["split"]
        self._check_client(client)
        sent, found, tallies = unpack_arrays(content, "weights"), [], {}
        for task, array in sent.items():
            weights = unpack_array(array, self._trainer.layout(task).size)
            one = self._evaluate_task(task, weights, split)
            if isinstance(one, EvaluationFailure):
                found.append({"task": task, "failed": [one.reason, one.detail]})
                continue
            plain = asdict(one)
            tally = plain.pop("tally")
            if tally is not None:
                tallies[task] = np.asarray(tally, np.float64).reshape(-1)
            found.append(plain)
        return pack({"found": found}, **({"tallies": tallies} if tallies else {}))

    def _evaluate_task(
        self, task: str, weights: Flat, split: Split
    ) -> Evaluation | EvaluationFailure:
        """A model on the client's shard, or on what the node holds back for the test."""
        client = self._settings.client
        if split != "test":
            return self._trainer.evaluate(task, weights, split, client=client)
        pieces = [
            self._trainer.evaluate(task, weights, "test", piece=piece)
            for piece in range(self._trainer.federation.pieces(task, "test"))
        ]
        whole = [piece for piece in pieces if isinstance(piece, Evaluation)]
        if not whole:
            return EvaluationFailure(task, client, "evaluation", "it has no examples for the test")
        tallies = [piece.tally for piece in whole if piece.tally is not None]
        return Evaluation(
            task,
            sum(piece.examples for piece in whole),
            sum(piece.loss for piece in whole),
            sum(piece.metric for piece in whole),
            client,
            sum(piece.guess for piece in whole),
            np.sum(tallies, axis=0) if tallies else None,
        )

    def _check_client(self, client: object) -> None:
        if client != self._settings.client:
            raise InputError(f"this node serves client {self._settings.client}, not {client!r}")
