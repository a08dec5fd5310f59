import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mmfl.errors import InputError
from mmfl.rng import Stream, stream

words = st.text(max_size=4) | st.integers(-(10**20), 10**20)
seeds = st.integers(0, 2**70)
ids = st.lists(st.integers(0, 2**62), min_size=1, max_size=20, unique=True)


def numbers(rng):
    return rng.integers(0, 2**63, size=4).tolist()


@given(seeds, st.lists(words, max_size=4))
def test_same_address_same_numbers(seed, path):
    assert numbers(stream(seed, *path)) == numbers(stream(seed, *path))


@given(st.lists(st.tuples(seeds, st.lists(words, max_size=3).map(tuple)), max_size=6, unique=True))
def test_different_addresses_differ(addresses):
    drawn = {tuple(numbers(stream(seed, *path))) for seed, path in addresses}
    assert len(drawn) == len(addresses)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "b"), ("ab",)),
        (("a", "b"), ("b", "a")),
        (("a", ""), ("a",)),
        ((1,), ("1",)),
        ((1, 2), (12,)),
        ((-1,), (1,)),
        (("a1:b",), ("a", "b")),
        (("aw1:b",), ("a", "b")),
    ],
)
def test_borders_and_types_of_words_matter(one, other):
    assert numbers(stream(0, *one)) != numbers(stream(0, *other))


def test_seed_matters():
    assert numbers(stream(0, 1)) != numbers(stream(1, 0))
    assert numbers(stream(0)) != numbers(stream(1))


def test_numpy_integers_are_whole_numbers():
    assert numbers(stream(np.int64(3), np.uint8(4))) == numbers(stream(3, 4))


def test_numbers_stay_the_same_from_version_to_version():
    rng = stream(7, "train", 3, "letters", 12)
    assert rng.at([0, 1, 2]).tolist() == [
        0.6060666357082396,
        0.4205645375957697,
        0.8023406700635763,
    ]
    assert rng.random(2).tolist() == [0.9761326371014643, 0.3372761840829558]
    assert rng.torch_seed() == 2935661815403488662


@given(ids, st.randoms(use_true_random=False))
def test_at_does_not_depend_on_other_ids_or_their_order(asked, shuffler):
    rng = stream(5, "at")
    alone = {i: rng.at([i])[0] for i in asked}
    shuffled = shuffler.sample(asked, len(asked))
    assert rng.at(shuffled).tolist() == [alone[i] for i in shuffled]


def test_at_consumes_nothing():
    asked, untouched = stream(5, "at"), stream(5, "at")
    asked.at(np.arange(1000))
    assert numbers(asked) == numbers(untouched)


def test_at_does_not_depend_on_what_was_drawn():
    rng = stream(5, "at")
    before = rng.at([3, 4])
    rng.random(100)
    assert rng.at([3, 4]).tolist() == before.tolist()


@pytest.mark.parametrize("step", [1, 1024, 2**40])
def test_at_is_uniform_over_ids(step):
    draws = stream(1, "uniform").at(np.arange(20_000) * step)
    assert draws.min() >= 0
    assert draws.max() < 1
    assert stats.kstest(draws, "uniform").pvalue > 1e-3


def test_at_is_uniform_over_addresses():
    draws = [stream(1, "allocate", t).at([17])[0] for t in range(5_000)]
    assert stats.kstest(draws, "uniform").pvalue > 1e-3


def test_at_is_uncorrelated_between_neighbouring_ids_and_addresses():
    draws = np.stack([stream(1, "allocate", t).at(np.arange(20_000)) for t in range(3)])
    pairs = [(draws[0, 1:], draws[0, :-1]), (draws[0], draws[1]), (draws[0], draws[2])]
    assert min(stats.pearsonr(a, b).pvalue for a, b in pairs) > 1e-3


def test_at_differs_from_the_stream_itself():
    rng = stream(2, "x")
    assert not set(rng.at(np.arange(100))) & set(rng.random(100))


def test_at_keeps_the_shape_and_takes_no_id_at_all():
    assert stream(0).at([[1, 2], [3, 4]]).shape == (2, 2)
    assert stream(0).at(np.arange(0)).shape == (0,)


def test_child_has_an_address_of_its_own():
    rng = stream(3, "a")
    assert isinstance(rng.child("b"), Stream)
    assert numbers(rng.child("b")) == numbers(stream(3, "a").child("b"))
    different = [rng.child("b"), rng.child("c"), rng.child("b").child("c"), rng.child("bc"), rng]
    assert len({tuple(numbers(each)) for each in different}) == len(different)
    assert numbers(stream(3, "x").child("b")) != numbers(stream(3, "a").child("b"))


def test_child_consumes_nothing_and_ignores_what_was_drawn():
    rng, untouched = stream(3, "a"), stream(3, "a")
    early = rng.child("b")
    assert numbers(rng) == numbers(untouched)
    assert numbers(rng.child("b")) == numbers(early)


def test_torch_seed_is_fixed_by_the_address_and_fits_63_bits():
    drawn = [stream(0, "train", t).torch_seed() for t in range(200)]
    assert drawn == [stream(0, "train", t).torch_seed() for t in range(200)]
    assert len(set(drawn)) == 200
    assert all(0 <= each < 2**63 for each in drawn)


@pytest.mark.parametrize("seed", [-1, 1.0, "0", None, True, np.float64(2), np.int64(-3)])
def test_bad_seed_is_named(seed):
    with pytest.raises(InputError, match=r"seed must be a whole number >= 0, got"):
        stream(seed)


@pytest.mark.parametrize("word", [1.0, None, True, b"a", ("a",), np.float64(1), np.True_])
def test_bad_word_is_named(word):
    for make in (lambda: stream(0, "a", word), lambda: stream(0).child(word)):
        with pytest.raises(InputError, match="words and whole numbers, got"):
            make()


def test_global_state_of_numpy_is_neither_read_nor_written():
    before = np.random.get_state(legacy=False)  # noqa: NPY002
    rng = stream(9, "global")
    first = [numbers(rng), rng.at([1, 2]).tolist(), numbers(rng.child("b"))]
    after = np.random.get_state(legacy=False)  # noqa: NPY002
    assert before["state"]["pos"] == after["state"]["pos"]
    assert (before["state"]["key"] == after["state"]["key"]).all()
    np.random.seed(12345)  # noqa: NPY002
    rng = stream(9, "global")
    again = [numbers(rng), rng.at([1, 2]).tolist(), numbers(rng.child("b"))]
    np.random.set_state(before)  # noqa: NPY002
    assert again == first
