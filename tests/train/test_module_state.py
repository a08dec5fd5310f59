"""What a network keeps besides its weights is as it was before each turn."""

from __future__ import annotations

import itertools
import random
from collections import OrderedDict, deque

import numpy as np
import pytest
import torch
from torch import nn

from mmfl.errors import EngineError
from mmfl.train.module_state import ModuleState
from mmfl.train.resident import Resident
from support.helpers import one_line


class Helper:
    """An object of the user's own, which is no layer."""

    def __init__(self):
        self.calls, self.seen = 0, [{"tables": [torch.zeros(2)]}]


class Slots:
    """The same without a table of attributes."""

    __slots__ = ("calls", "later", "seen")

    def __init__(self):
        self.calls, self.seen = 0, [torch.zeros(1)]

    def __repr__(self):
        return str([getattr(self, name, None) for name in self.__slots__])


class Names(list):
    """A list with an attribute."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def __repr__(self):
        return f"{[*self]} {vars(self)}"


class Steps:
    """An iterator of the user's own."""

    def __init__(self):
        self.calls = 0

    def __next__(self):
        self.calls += 1
        return self.calls

    def __iter__(self):
        return self

    def __repr__(self):
        return str(self.calls)


class Keeper(nn.Module):
    """A network with something of every kind."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.alias = self.layer.weight
        self.hidden = [nn.BatchNorm1d(2)]
        self.calls, self.cache, self.empty, self.order = 0, {}, [], OrderedDict(a=1, b=2)
        self.last, self.names, self.tail = None, {"a"}, deque([1, 2], maxlen=2)
        self.table, self.numbers = torch.arange(3.0), np.arange(3)
        self.helper, self.slots, self.named, self.steps = Helper(), Slots(), Names(), Steps()
        self.bytes = bytearray(2)
        self.torch_random, self.random = torch.Generator(), random.Random(1)
        self.numpy_random = np.random.default_rng(1)
        self.old_random = np.random.RandomState(1)
        self.register_buffer("late", None)
        self.register_buffer("wide", torch.zeros(1).expand(3), persistent=False)
        self.myself = self


CHANGES = {
    "number": lambda m: setattr(m, "calls", m.calls + 1),
    "new attribute": lambda m: setattr(m, "more", torch.ones(1)),
    "attribute that is gone": lambda m: delattr(m, "last"),
    "dictionary": lambda m: m.cache.update(a=torch.ones(1)),
    "order": lambda m: m.order.move_to_end("a"),
    "list": lambda m: m.empty.append(1),
    "set": lambda m: m.names.add("b"),
    "deque": lambda m: m.tail.append(3),
    "tensor in place": lambda m: m.table.add_(1),
    "tensor replaced": lambda m: setattr(m, "table", m.table + 1),
    "tensor grown": lambda m: setattr(m.table, "data", torch.arange(9.0)),
    "array": lambda m: m.numbers.__iadd__(1),
    "own object": lambda m: setattr(m.helper, "calls", 3),
    "slot": lambda m: setattr(m.slots, "calls", 3),
    "slot that was empty": lambda m: setattr(m.slots, "later", 3),
    "in a slot": lambda m: m.slots.seen[0].add_(1),
    "attribute of a list": lambda m: setattr(m.named, "calls", 3),
    "items of such a list": lambda m: m.named.append(1),
    "own iterator": lambda m: next(m.steps),
    "bytes": lambda m: m.bytes.append(1),
    "deep down": lambda m: m.helper.seen[0]["tables"][0].fill_(9),
    "buffer that was None": lambda m: setattr(m, "late", torch.ones(2)),
    "buffer without memory": lambda m: setattr(m, "wide", m.wide + 1),
    "layer in a list": lambda m: m.hidden[0](torch.randn(4, 2)),
    "setting of a layer": lambda m: setattr(m.layer, "factor", 2),
    "frozen": lambda m: m.layer.weight.requires_grad_(False),
    "torch": lambda m: torch.rand(1, generator=m.torch_random),
    "random": lambda m: m.random.random(),
    "numpy": lambda m: m.numpy_random.random(),
    "numpy's old": lambda m: m.old_random.random_sample(),
}


def describe(module: Keeper) -> str:
    """All that can be seen of it."""
    hidden = {name: t.tolist() for name, t in module.hidden[0].state_dict().items()}
    attributes = {k: str(v) for k, v in vars(module).items() if not k.startswith("_")}
    buffers = {k: str(v) for k, v in module._buffers.items()}
    helper = str(vars(module.helper))
    draws = (
        module.torch_random.get_state().sum().item(),
        module.random.getstate(),
        module.numpy_random.bit_generator.state["state"],
        module.old_random.get_state()[1:3],
    )
    flags = [p.requires_grad for p in module.parameters()]
    return str((hidden, attributes, buffers, helper, draws, flags, list(vars(module.layer))))


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_network_can_reach_is_put_back(change):
    module = Keeper()
    state, before = ModuleState(module, module.parameters()), describe(module)
    for _ in range(2):
        CHANGES[change](module)
        assert describe(module) != before
        state.restore()
        assert describe(module) == before


@pytest.mark.parametrize("change", [name for name in CHANGES if "tensor" in name])
def test_large_tensors_are_put_back_if_they_were_changed(change, monkeypatch):
    monkeypatch.setattr("mmfl.train.module_state.LARGE", 0)
    test_what_a_network_can_reach_is_put_back(change)
    module = Keeper()
    state, before = ModuleState(module, module.parameters()), module.table.data_ptr()
    state.restore()
    assert module.table.data_ptr() == before


def test_weights_are_left_alone():
    module = Keeper()
    state = ModuleState(module, module.parameters())
    with torch.no_grad():
        module.layer.weight.fill_(7)
    state.restore()
    assert module.layer.weight.eq(7).all()
    assert module.alias is module.layer.weight


class Late(nn.Module):
    """A network that makes, or changes, weights while it runs."""

    def __init__(self, how: str):
        super().__init__()
        self.layer, self.how = nn.Linear(2, 2), how
        self.register_buffer("table", torch.zeros(2))

    def forward(self, x):
        if self.how == "layer" and not hasattr(self, "more"):
            self.more = nn.Linear(2, 2)
        if self.how == "buffer":
            self.register_buffer("more", torch.zeros(2))
        if self.how == "cache":
            self.register_buffer("more", torch.zeros(2), persistent=False)
        if self.how == "grows":
            self.table = torch.zeros(3)
        return self.layer(x)


@pytest.mark.parametrize(
    ("how", "name"), [("layer", "more.weight"), ("buffer", "more"), ("grows", "table")]
)
def test_weights_that_forward_makes_or_reshapes_are_one_sentence(how, name):
    resident = Resident(Late(how))
    for ask in (resident.check, lambda: resident.change(resident.first)):
        resident.set(resident.first)
        resident.check()
        resident.module(torch.ones(1, 2))
        with pytest.raises(EngineError, match=f"the network .* its weights '{name}' "):
            ask()


def test_a_cache_that_forward_registers_is_no_weight():
    resident = Resident(Late("cache"))
    resident.module(torch.ones(1, 2))
    assert not resident.change(resident.first.copy()).any()
    resident.set(resident.first)
    assert not hasattr(resident.module, "more")


@pytest.mark.parametrize("made", [itertools.count(), (n for n in "ab"), iter([1])], ids=type)
def test_an_iterator_is_refused(made):
    network = nn.Sequential(nn.Linear(2, 2), Keeper())
    network[1].more = {"inside": made}
    said = one_line(EngineError, lambda: ModuleState(network, network.parameters()))
    assert said.startswith(f"the network keeps an iterator ({type(made).__name__}), which cannot")
