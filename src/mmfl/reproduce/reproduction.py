"""A study at a scale: what is to be run, what came out, and whether it is what is stored here.

OUT/<scale>/<study>/<setting>/<variant>/seed-<n>/     run directories
STUDIES/results/<scale>/<study>.json                  curves of the runs that were made here
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mmfl.comparison import Comparison, refuse_other_seeds, slugify
from mmfl.errors import ConfigError, InputError, MmflWarning, StoreError
from mmfl.experiment import Experiment
from mmfl.reproduce.archive import Archive, ArchivedRun
from mmfl.reproduce.auctions import AuctionStudy, hold_auctions
from mmfl.reproduce.claims import Claim, Outcome
from mmfl.reproduce.study import Scale, Study, load_scales, load_study
from mmfl.runs import Run, find_damage
from mmfl.system.files import is_file, is_folder, list_folder

__all__ = ["Finding", "Reproduction", "find_finished", "find_paper", "group_by_seeds"]

Match = Literal["met", "missed", ""]


@dataclass(frozen=True)
class Finding:
    """What is known about a claim.

    Attributes:
        claim: The claim.
        stored: What the stored results say; None if there are none.
        yours: What your own runs say; None if there are none.
    """

    claim: Claim
    stored: Outcome | None
    yours: Outcome | None

    @property
    def tolerance(self) -> float:
        """How far yours may be from what is stored; NaN if there is nothing to compare."""
        if self.stored is None or self.yours is None:
            return math.nan
        return self.stored.tolerance(self.yours.spread.n)

    @property
    def match(self) -> Match:
        """Whether yours is within the tolerance."""
        if self.stored is None or self.yours is None:
            return ""
        apart = abs(self.stored.spread.mean - self.yours.spread.mean)
        return "met" if apart <= self.tolerance else "missed"


class Reproduction:
    """One study at one scale.

    Attributes:
        name: The study's name.
        study: The study.
        scale: The scale.
        folder: Where its runs are stored.
    """

    def __init__(self, studies: Path, name: str, scale: str, out: Path) -> None:
        scales = load_scales(studies)
        if scale not in scales:
            raise InputError(f"unknown scale {scale!r}; known: {', '.join(scales)}")
        self.name, self._scale_name = name, scale
        self.study: Study | AuctionStudy = load_study(studies, name)
        self.scale: Scale = scales[scale]
        self._owner = owner = getattr(self.study, "runs", None) or name
        self.folder = out / scale / owner
        self.results = studies / "results" / scale / f"{owner}.json"
        self.figure = studies / "results" / scale / f"{name}.png"

    def comparisons(
        self, seeds: Sequence[int], data_dir: Path | None = None, *, missing: bool = False
    ) -> Iterator[tuple[str, Comparison]]:
        """The comparisons of each setting, by its name; finished runs are kept.

        Args:
            seeds: Of the runs.
            data_dir: Folder of npz files.
            missing: Whether to leave out runs whose curves are stored already.
        """
        if isinstance(self.study, AuctionStudy):
            return
        stored = self.load_results().runs if missing else {}
        for setting in self.study.settings:
            experiments = self._experiments(self.study, setting)
            folder = self.folder / slugify(setting)
            for names, some in group_by_seeds(experiments, seeds, stored.get(setting, {})):
                chosen = {name: experiments[name] for name in names}
                yield setting, Comparison(chosen, some, folder, data_dir=data_dir)

    def _experiments(self, study: Study, setting: str) -> dict[str, Experiment]:
        try:
            return study.experiments(setting, self.scale)
        except ConfigError as error:
            said = str(error).partition("; pass allow_imports")[0]
            more = "" if said == str(error) else ", which a study cannot do"
            raise ConfigError(f"{self.name}, {setting}: {said}{more}") from None

    def collect(self, seeds: Sequence[int] = ()) -> Archive:
        """Your finished runs, of all seeds; auctions are held again, with these seeds.

        Runs of another experiment are refused. Runs that are damaged are left out with a warning.
        """
        found = Archive(self._owner, self._scale_name)
        if isinstance(self.study, AuctionStudy):
            if seeds:
                hold_auctions(self.study, seeds, found)
            return found
        for setting, here in self.study.settings.items():
            experiments = self._experiments(self.study, setting)
            for variant in here.variants or self.study.variants:
                folder = self.folder / slugify(setting) / slugify(variant)
                refuse_other_seeds(folder, experiments[variant], ())
                for seed, path in find_finished(folder):
                    run = ArchivedRun.of(path, with_map=self.study.maps and seed == 0)
                    found.add(setting, variant, seed, run)
        return found

    def load_results(self) -> Archive:
        """What is stored with the studies, as far as it belongs to this one."""
        stored = Archive.load(self.results, self._owner, self._scale_name)
        found = Archive(self._owner, self._scale_name)
        for setting, variant, seed, run in stored or ():
            here = self.study.settings.get(setting)
            wanted = getattr(here, "variants", None) or self.study.variants
            if here is not None and variant in wanted:
                found.add(setting, variant, seed, run)
        return found

    def default_seeds(self) -> int:
        """How many seeds are run if nobody says so."""
        if isinstance(self.study, AuctionStudy) and self.scale.seeds > 1:
            return self.study.seeds
        return self.scale.seeds

    def store(self, runs: Archive) -> None:
        """Add runs to the stored results."""
        stored = Archive.load(self.results, self._owner, self._scale_name) or Archive(
            runs.study, runs.scale
        )
        stored.update(runs)
        stored.save(self.results)

    def check(self, yours: Archive) -> list[Finding]:
        """What is known about each claim."""
        stored, mine = self.load_results().variants(), yours.variants()
        return [Finding(one, one.check(stored), one.check(mine)) for one in self.study.claims]


def find_paper() -> Path:
    """The folder of the paper's studies: in this clone, or in the installed package."""
    here = Path(__file__).resolve()
    for folder in (here.parents[3] / "experiments" / "paper", here.parent / "paper"):
        if is_file(folder / "scales.toml"):
            return folder
    raise InputError("the paper's experiments are not installed; name a folder of studies")


def group_by_seeds(
    variants: Iterable[str], seeds: Sequence[int], stored: Mapping[str, Collection[int]]
) -> Iterator[tuple[list[str], list[int]]]:
    """Variants that lack the same seeds, and these seeds; those that lack none are left out."""
    lacking: dict[tuple[int, ...], list[str]] = {}
    for name in variants:
        missing = tuple(seed for seed in seeds if seed not in stored.get(name, ()))
        lacking.setdefault(missing, []).append(name)
    return ((names, list(missing)) for missing, names in lacking.items() if missing)


def find_finished(folder: Path) -> Iterator[tuple[int, Path]]:
    """Seed and directory of each finished run of a variant; one that is damaged is left out."""
    for path in list_folder(folder) if is_folder(folder) else ():
        seed = path.name.removeprefix("seed-")
        if seed == path.name or not seed.isdecimal():
            continue
        try:
            if Run.load(path).status != "finished":
                continue
            damage = find_damage(path)
            if damage:
                raise StoreError(f"the run in {str(path)!r} is damaged: {damage}")
        except StoreError as error:
            warnings.warn(f"{error}; it is left out", MmflWarning, stacklevel=3)
            continue
        yield int(seed), path
