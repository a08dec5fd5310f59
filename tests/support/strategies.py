"""Experiments made up by hypothesis."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from mmfl.aggregate import Checks
from mmfl.allocate import EqualBounds, FedFair, RoundRobin, Sequential, Uniform
from mmfl.data import (
    Augment,
    AutoNormalize,
    ByGroup,
    Dirichlet,
    FromFile,
    HalfClasses,
    Iid,
    Named,
    Npz,
    Synthetic,
)
from mmfl.data.preparation import Given, Half, Standard, Unscaled
from mmfl.experiment import (
    Clients,
    Constant,
    Evaluate,
    Experiment,
    Inline,
    Inverse,
    Local,
    LocalOverride,
    LocalTraining,
    RecruitmentSettings,
    Task,
)
from mmfl.market import BudgetFair, GMMFair, MaxMinFair, RandomWithinBudget, ValueThreshold
from mmfl.market.bids_io import Beta, Csv, Exponential, IncreasingLinear, TruncatedNormal
from mmfl.models import Cnn, Mlp, PreactResnet
from mmfl.objectives import (
    F1,
    Accuracy,
    Auc,
    CrossEntropy,
    Error,
    Huber,
    LossScore,
    MeanSquaredError,
    RelativeLoss,
    TopK,
)
from mmfl.optimizers import Adam, RMSprop, Sgd

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
    st.builds(EqualBounds, counts, st.floats(1), st.booleans()),
)
ranges = st.tuples(counts, counts).map(sorted).map(tuple)
points = st.none() | counts | ranges
partitions = st.one_of(
    st.builds(Iid, points, st.booleans()),
    st.builds(HalfClasses, share, points, st.booleans()),
    st.builds(Dirichlet, positive, points, st.booleans()),
    st.builds(ByGroup, points),
    st.builds(FromFile, st.from_regex(r"[a-zé_ 0-9.\"'\\\n-]+\.(npy|csv|txt)", fullmatch=True)),
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
    st.builds(PreactResnet, counts, st.just((1, 2)), st.sampled_from(["batch", "group"]), counts),
)
kernels = st.sampled_from(["auto", "fast", "reference"])
losses = st.one_of(
    st.builds(CrossEntropy, below_one), st.builds(Huber, positive), st.just(MeanSquaredError())
)
metrics = st.one_of(
    *(st.none(), st.just(Accuracy()), st.builds(TopK, counts), st.just(F1("macro"))),
    st.builds(Auc, st.integers(2, 9999)),
)
numbers = st.floats(-1e6, 1e6) | st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3).map(tuple)
normalizations = st.one_of(
    st.sampled_from([AutoNormalize(), Half(), Unscaled(), Standard()]),
    st.builds(Given, numbers, st.floats(1e-3, 1e3)),
)
work = st.one_of(
    st.just({}), st.fixed_dictionaries({"epochs": counts}), st.fixed_dictionaries({"steps": counts})
)
optimizers = st.one_of(
    *(st.just(Sgd()), st.builds(Adam, st.tuples(below_one, below_one), positive)),
    st.builds(RMSprop, below_one, momentum=below_one, centered=st.booleans()),
)


def _without_sgd_keys(settings: dict[str, object]) -> dict[str, object]:
    """Momentum and weight decay of ``[local]`` are SGD's."""
    if isinstance(settings.get("optimizer", Sgd()), Sgd):
        return settings
    return {k: v for k, v in settings.items() if k not in ("momentum", "weight_decay")}


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
            "clip_norm": positive,
            "prox": st.floats(0, 1e9),
            "optimizer": optimizers,
        },
    ),
).map(_without_sgd_keys)


bid_models = st.one_of(
    st.builds(Beta, positive, positive, positive),
    st.builds(Exponential, positive),
    st.just(IncreasingLinear(0.25, 3.0)),
    st.builds(TruncatedNormal, st.floats(0, 1e6), positive),
)
mechanisms = st.one_of(
    st.builds(BudgetFair, positive, st.sampled_from(["critical", "share"])),
    st.builds(GMMFair, positive),
    st.builds(MaxMinFair, positive, st.sampled_from(["critical", "share"]), st.booleans()),
    st.builds(RandomWithinBudget, positive, st.integers(0, 2**63 - 1)),
    st.builds(ValueThreshold, positive),
)
policies = st.fixed_dictionaries(
    {
        "fraction": st.sampled_from(["probability", "work"]),
        "dropouts": st.sampled_from(["paid", "unpaid"]),
        "empty": st.sampled_from(["stop", "leave_out"]),
    }
)


@st.composite
def recruitments(draw: st.DrawFn, names: list[str]) -> RecruitmentSettings:
    mechanism, policy = draw(mechanisms), draw(policies)
    if draw(st.booleans()):
        return RecruitmentSettings(mechanism, Csv(draw(st.text(min_size=1))), **policy)
    return RecruitmentSettings(
        mechanism,
        draw(bid_models),
        draw(st.dictionaries(st.sampled_from(names), bid_models)),
        draw(st.floats(0, 1)),
        **policy,
    )


@st.composite
def tasks(draw: st.DrawFn, name: str, local: LocalTraining) -> Task:
    own = _without_sgd_keys({"optimizer": local.optimizer} | draw(settings_of_local))
    flat = draw(st.sets(st.sampled_from(sorted(own)))) if own else set()
    return Task(
        name,
        draw(datasets),
        draw(models),
        draw(partitions),
        draw(losses),
        draw(metrics),
        draw(st.none() | st.floats(-1e6, 1e6)),
        draw(normalizations),
        draw(st.builds(Augment, st.integers(0, 9), st.booleans())),
        draw(st.none() | st.text(min_size=1)),
        kernel=draw(st.none() | kernels),
        weight=draw(st.just(1.0) | positive),
        local=LocalOverride(**{key: own[key] for key in own if key not in flat}),
        **{key: own[key] for key in flat},
    )


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    count = draw(st.integers(1, 5))
    each = st.lists(st.floats(0, 1), min_size=count, max_size=count).filter(any).map(tuple)
    names = st.from_regex(r"[A-Za-z0-9_é][A-Za-z0-9_.+-]{0,8}", fullmatch=True)
    chosen = draw(st.lists(names, min_size=1, max_size=3, unique_by=str.casefold))
    local = LocalTraining(**draw(settings_of_local))
    return Experiment(
        rounds=draw(counts),
        clients=Clients(count, draw(share | each)),
        tasks=tuple(draw(tasks(name, local)) for name in chosen),
        seed=draw(st.integers(0, 2**63 - 1)),
        precision=draw(st.sampled_from(["float32", "bf16"])),
        kernel=draw(kernels),
        score=draw(st.sampled_from([Error(), LossScore(), RelativeLoss()])),
        score_split=draw(st.sampled_from(["validation", "test"])),
        score_source=draw(st.sampled_from(["server", "clients"])),
        score_clients=draw(st.none() | counts),
        validation=draw(st.floats(0, 1, exclude_min=True, exclude_max=True)),
        local=local,
        allocator=draw(allocators),
        recruitment=draw(st.none() | recruitments(chosen)),
        checks=Checks(draw(positive | st.just(math.inf))),
        evaluate=draw(st.builds(Evaluate, counts, counts)),
        engine=draw(
            st.just(Inline())
            | st.builds(Local, st.just("auto") | counts, st.none() | st.floats(0.1, 1e9))
        ),
    )
