"""Addressed randomness: every random number of mmfl has an address and depends on no other.

`stream(seed, *path)` opens a counter-based generator (Philox 4x64) whose key is a hash of the seed
and of a path of words and numbers, such as ``("train", 7, "fashion", 12)``. Two addresses give
independent streams; the same address gives the same numbers on any worker, in any order, after any
restart. No two parts of mmfl draw from the same generator.

Where one number per client is needed, `Stream.at(ids)` gives each id its own number, which does
not depend on which other ids were asked for.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISeedSequence

from mmfl.errors import InputError

__all__ = ["Stream", "stream"]

Word = str | int
Key = npt.NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_BLOCK = 1 << 13  # ids at a time: they stay in the processor's cache


class Stream(np.random.Generator):
    """A NumPy generator that knows its address: it can be split, and asked number by number."""

    def __init__(self, key: Key) -> None:
        super().__init__(np.random.Philox(_Given(key)))  # type: ignore[arg-type]
        self._key = key

    def child(self, *path: Word) -> Stream:
        """An independent stream below this one's address; consumes nothing of this one."""
        return Stream(_key(self._key.tobytes(), path))

    def at(self, ids: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """One uniform number in [0, 1) for each id; consumes nothing, and ids do not interact."""
        low, high = self._key
        asked = np.asarray(ids)
        flat = asked.reshape(-1)
        draws = np.empty(flat.shape)
        for start in range(0, len(flat), _BLOCK):
            some = slice(start, start + _BLOCK)
            z = flat[some].astype(np.uint64)
            z *= _GOLDEN
            z += low
            _mix(z)
            z ^= high
            _mix(z)
            z >>= np.uint64(11)
            np.multiply(z, 2.0**-53, out=draws[some])
        return draws.reshape(asked.shape)

    def torch_seed(self) -> int:
        """A 63-bit seed for torch's own generator, fixed by the address."""
        return int(self._key[0] >> np.uint64(1))


class _Given(ISeedSequence):
    """A key that is used as it is; ``Philox(key=key)`` would first ask the system for entropy."""

    def __init__(self, key: Key) -> None:
        self._key = key

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Key:
        """The key, which is what Philox asks for."""
        return self._key


def stream(seed: int, *path: Word) -> Stream:
    """The random stream at an address.

    Args:
        seed: The experiment's seed, a whole number >= 0.
        *path: Words and whole numbers that say what the numbers are for.

    >>> stream(0, "train", 1, "letters", 7).random() == stream(0, "train", 1, "letters", 7).random()
    True
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed must be a whole number >= 0, got {seed!r}")
    return Stream(_key(b"mmfl", (int(seed), *path)))


def _key(root: bytes, path: tuple[Word, ...]) -> Key:
    """A 128-bit key from a path; the encoding keeps types and borders, so paths cannot collide."""
    digest = _hash_path(root, *path[:-1]).copy()  # many addresses differ in their last word alone
    for word in path[-1:]:
        digest.update(_encode_word(word))
    return np.frombuffer(digest.digest(), dtype="<u8").astype(np.uint64)


@lru_cache(maxsize=64, typed=True)
def _hash_path(root: bytes, *path: Word) -> hashlib.blake2b:
    digest = hashlib.blake2b(root, digest_size=16)
    for word in path:
        digest.update(_encode_word(word))
    return digest


def _encode_word(word: Word) -> bytes:
    if isinstance(word, str):
        text, tag = word.encode(errors="surrogatepass"), b"w"
    elif isinstance(word, int | np.integer) and not isinstance(word, bool):
        text, tag = str(int(word)).encode(), b"n"
    else:
        raise InputError(f"a random address must consist of words and whole numbers, got {word!r}")
    return b"%b%d:%b" % (tag, len(text), text)


def _mix(z: npt.NDArray[np.uint64]) -> None:
    """SplitMix64's finaliser (Stafford's variant 13), in place: every bit moves every bit."""
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
