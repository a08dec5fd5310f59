"""Valid and broken files for the folder in which commands run: see `mutated_inputs.PATHS`.

Data sets have the names that the experiments use, so that experiments are valid before mutation.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mmfl.rng import Stream, stream

__all__ = ["make_input_files"]

Array = npt.NDArray[Any]

ROWS = 120
"""Training rows of the small sets."""


def make_input_files(folder: Path) -> None:
    """Make the folder and everything in it."""
    rng = stream(0, "chaos", "furniture")
    for name in ("folder", "folder.npy", "data", "temporary", "cache"):
        (folder / name).mkdir(parents=True)
    _data(folder / "data", rng)
    bids = "".join(f"{k},0.{k},0.2,{k / 2}\n" for k in range(8))
    (folder / "bids.csv").write_text(f"client,wards,stays,again\n{bids}")
    patients = "".join(f"{k},{20 + k},{k % 3},{k % 2},{k / 7}\n" for k in range(60))
    (folder / "data/patients.csv").write_text(f"id,age,hospital,outcome,days\n{patients}")
    (folder / "huge.csv").write_text("a" * 5_000_000)
    (folder / "empty.csv").touch()
    owners = rng.integers(-1, 8, size=ROWS)
    (folder / "owners.csv").write_text("".join(f"{k}\n" for k in owners))
    np.save(folder / "owners.npy", owners)
    (folder / "junk.npy").write_bytes(b"\x93NUMPY" + rng.bytes(500))
    with (folder / "header.npy").open("wb") as file:  # the header claims eight exabytes
        np.lib.format.write_array_header_1_0(file, _head("<i8", (10**18,)))
    (folder / "locked").touch(mode=0)
    links = {"loop": "loop", "dangling": "nowhere", "full": "/dev/full", "zero": "/dev/zero"}
    for name, target in (links | {"zero.csv": "/dev/zero", "link.csv": "bids.csv"}).items():
        (folder / name).symlink_to(target)
    for name in ("pipe", "pipe.csv"):
        os.mkfifo(folder / name)
    _warm(folder / "warm.safetensors", rng)


def _warm(path: Path, rng: Stream) -> None:
    """Weights for the network of the first experiment in `seeds.FILES`."""
    from safetensors.numpy import save_file

    shapes = {
        **{"0.weight": (2, 1, 3, 3), "0.bias": (2,), "3.weight": (4, 2, 3, 3), "3.bias": (4,)},
        **{"7.weight": (8, 196), "7.bias": (8,), "9.weight": (10, 8), "9.bias": (10,)},
    }
    made = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    save_file(made, path)


def _data(folder: Path, rng: Stream) -> None:
    """Data sets, valid and broken."""
    for name, shape, classes in (
        ("mnist", (28, 28), 10),
        ("fashion_mnist", (28, 28), 10),
        ("emnist", (28, 28), 47),
        ("cifar10", (32, 32, 3), 10),
    ):
        x = rng.integers(256, size=(6700, *shape), dtype=np.uint8)
        _npz(folder / f"{name}.npz", x, np.arange(6700) % classes, 6500)
    x = rng.standard_normal((ROWS + 30, 4)).astype(np.float32)
    numbers = np.arange(ROWS + 30)
    _npz(folder / "real.npz", x, x[:, 0], ROWS)
    _npz(folder / "groups.npz", x, numbers % 3, ROWS, groups=numbers[:ROWS] % 8)
    _npz(folder / "huge.npz", np.stack([numbers, 2**62 - numbers], axis=1), numbers % 3, ROWS)
    (folder / "bad.npz").write_bytes(b"PK\x03\x04" + rng.bytes(200))
    _bomb(folder / "bomb.npz", numbers % 3)


def _npz(path: Path, x: Array, y: Array, train: int, **more: Array) -> None:
    parts = {"x_train": x[:train], "y_train": y[:train], "x_test": x[train:], "y_test": y[train:]}
    np.savez(path, allow_pickle=False, **parts, **more)


def _bomb(path: Path, y: Array) -> None:
    """A small npz file whose header claims terabytes of examples."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, some in (("train", y[:ROWS]), ("test", y[ROWS:])):
            with archive.open(f"x_{name}.npy", "w") as file:
                head = _head("<f4", (len(some), 10**5, 10**5))
                np.lib.format.write_array_header_1_0(file, head)
            with archive.open(f"y_{name}.npy", "w") as file:
                np.lib.format.write_array(file, some)


def _head(kind: str, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"descr": kind, "fortran_order": False, "shape": shape}
