"""What-if planning: what alphas and budgets will do, before anything is spent.

Every scenario (an alpha and a budget) is drawn several times. A draw is the round loop of
`mmfl.rounds` on a `Surrogate`: the auction is held, clients are active, the allocator allocates,
faults happen; only training is replaced, by what is known of the tasks. The federation (who holds
what) is the experiment's own; everything else is drawn anew: simulated bids, activity, allocation,
faults. Scenarios share their draws' seeds, so that differences between them are not luck.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mmfl.errors import InputError, MmflWarning, NobodyError
from mmfl.experiment import DataCache, Experiment, Federation, simulate
from mmfl.loop import Population, RecruitedClients, recruit, rounds
from mmfl.planning.asked import (
    budget_of,
    difficulties,
    refuse_beta,
    targets_of,
    with_alpha,
    with_other_budget,
)
from mmfl.planning.gathering import Auctioned, Trial, gathered
from mmfl.planning.histories import learnt
from mmfl.planning.learning import DEFAULT_BETA, Learning
from mmfl.planning.outlook import Plan, Source
from mmfl.planning.surrogate import Fixed, Surrogate, Tutor, rehearsed, work_of
from mmfl.rng import stream

__all__ = ["DRAWS", "Planning", "plan"]

DRAWS = 50


@dataclass(frozen=True, eq=False)
class Planning:
    """A plan that is ready to be drawn.

    Attributes:
        experiment: What is planned.
        federation: Who holds what: the experiment's own, in every draw.
        tutors: By task, what is known of how hard it is.
        source: Where that comes from.
        targets: By task, the metric to reach; tasks without one are left out.
        alphas: None = as it is.
        budgets: None = as it is.
        draws: Of each scenario.
        runs: The run directories that were read.
        notes: What a person should know.
    """

    experiment: Experiment
    federation: Federation
    tutors: Mapping[str, Tutor]
    source: Source
    targets: Mapping[str, float]
    alphas: tuple[float | None, ...]
    budgets: tuple[float | None, ...]
    draws: int
    runs: tuple[Path, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        *,
        alphas: Sequence[float] = (),
        budgets: Sequence[float] = (),
        runs: Sequence[str | Path] = (),
        difficulty: Mapping[str, float] | None = None,
        targets: float | Mapping[str, float] | None = None,
        beta: float | None = None,
        draws: int = DRAWS,
        data_dir: str | Path | None = None,
    ) -> Planning:
        """Check what is asked, read the runs, and share the data out; see `plan`."""
        if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
            raise InputError(f"draws must be a whole number >= 1, got {draws!r}")
        if runs and difficulty is not None:
            raise InputError("difficulty and runs both say how hard tasks are; give one of them")
        refuse_beta(beta, bool(runs))
        for alpha in alphas:
            with_alpha(experiment, alpha)
        for budget in budgets:
            with_other_budget(experiment, budget)
        names = [task.name for task in experiment.tasks]
        source: Source = "runs" if runs else "equal" if difficulty is None else "difficulty"
        notes: tuple[str, ...] = ()
        folders: tuple[Path, ...] = ()
        tutors: Mapping[str, Tutor]
        if runs:
            told = learnt(experiment, runs, beta=beta)
            tutors, folders = told.tasks, told.folders
            notes = (*told.notes, *_about_beta(told.tasks))
        elif difficulty is not None:
            tutors = {task: Fixed(f) for task, f in difficulties(difficulty, names).items()}
        else:
            tutors = {task: Fixed(1.0) for task in names}
            if hasattr(experiment.allocator, "alpha"):
                notes = (
                    "All tasks count as equally hard, so alpha makes no difference: give a "
                    "finished run, or how hard they are.",
                )
        if experiment.faults is not None and experiment.faults.clients:
            notes += ("What hostile clients do to the models is not planned, only their turns.",)
        place = None if data_dir is None else Path(data_dir)
        resolved = experiment.resolved()
        return cls(
            experiment=experiment,
            federation=simulate(resolved, DataCache(place).arrays(resolved)),
            tutors=tutors,
            source=source,
            targets=targets_of(experiment, targets, bool(runs)),
            alphas=tuple(dict.fromkeys(alphas)) or (None,),
            budgets=tuple(dict.fromkeys(budgets)) or (None,),
            draws=draws,
            runs=folders,
            notes=notes,
        )

    @property
    def steps(self) -> int:
        """How many trials there are."""
        return self.draws * len(self.alphas) * len(self.budgets)

    def trials(self) -> Iterator[Trial]:
        """Draw after draw, each with all budgets and alphas; an auction serves all alphas."""
        for draw in range(self.draws):
            seed = int(stream(self.experiment.seed, "plan", draw).integers(2**63))
            for budget in self.budgets:
                base = rehearsed(with_other_budget(self.experiment, budget), seed)
                population, recruited = _recruited(base, self.federation)
                for alpha in self.alphas:
                    yield self._trial(draw, with_alpha(base, alpha), population, recruited)

    def gathered(self, trials: Iterable[Trial]) -> Plan:
        """The plan that trials make."""
        found = tuple(trials)
        notes = self.notes
        settings = self.experiment.recruitment
        stops = settings is not None and settings.empty == "stop"
        if stops and any(
            trial.auction is not None and trial.auction.left_out.any() for trial in found
        ):
            notes += (
                "Where a task recruits nobody it is left out here; with recruitment.empty = "
                '"stop", as the experiment has it, such a run does not begin.',
            )
        return Plan(
            scenarios=gathered(found, self.federation.tasks, self.targets, self.source),
            rounds=self.experiment.rounds,
            draws=self.draws,
            tasks=self.federation.tasks,
            source=self.source,
            runs=self.runs,
            beta={t: x.beta for t, x in self.tutors.items() if isinstance(x, Learning)},
            notes=notes,
        )

    def _trial(
        self,
        draw: int,
        experiment: Experiment,
        population: Population | None,
        recruited: RecruitedClients | None,
    ) -> Trial:
        """One draw of one scenario, from the auction to the last round."""
        tasks = self.federation.tasks
        S = len(tasks)
        turns, starved = np.zeros(S), np.zeros(S)
        reached, beyond = np.full(S, math.inf), np.full(S, math.inf)
        difficulty, metric = np.full(S, math.nan), np.full(S, math.nan)
        active = 0
        if population is None:
            starved += experiment.rounds
        else:
            engine = Surrogate(experiment, self.federation, self.tutors)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MmflWarning)  # of tasks left out: they are counted
                for state, record in rounds(experiment, engine=engine, population=population):
                    active += record.active
                    for s, task in enumerate(tasks):
                        turns[s] += record.clients[task]
                        starved[s] += not record.clients[task]
                        work = work_of(state.params[task])
                        if beyond[s] == math.inf and self._is_beyond(task, work):
                            beyond[s] = record.round
                        if reached[s] == math.inf and self._has_reached(task, work, draw):
                            reached[s] = record.round
                difficulty = np.array([record.difficulty[task] for task in tasks])
                metric = np.array([record.metric[task] for task in tasks])
        return Trial(
            alpha=getattr(experiment.allocator, "alpha", None),
            budget=budget_of(experiment),
            active=active / experiment.rounds,
            clients=turns / experiment.rounds,
            share=turns / max(turns.sum(), 1.0),
            starved=starved / experiment.rounds,
            auction=None if experiment.recruitment is None else _auction(recruited, tasks),
            difficulty=difficulty,
            metric=metric,
            reached=reached,
            beyond=beyond,
        )

    def _is_beyond(self, task: str, work: float) -> bool:
        tutor = self.tutors[task]
        return isinstance(tutor, Learning) and tutor.beyond(work)

    def _has_reached(self, task: str, work: float, draw: int) -> bool:
        tutor, target = self.tutors[task], self.targets.get(task)
        if target is None or not isinstance(tutor, Learning):
            return False
        return tutor.reached(target, work, like=draw)


def plan(
    experiment: Experiment,
    *,
    alphas: Sequence[float] = (),
    budgets: Sequence[float] = (),
    runs: Sequence[str | Path] = (),
    difficulty: Mapping[str, float] | None = None,
    targets: float | Mapping[str, float] | None = None,
    beta: float | None = None,
    draws: int = DRAWS,
    data_dir: str | Path | None = None,
) -> Plan:
    """What to expect of alphas and budgets: clients, take-up, spend, starving, rounds to a target.

    Args:
        experiment: What is to be run; nothing of it is trained.
        alphas: Of the allocator, in [1, inf]; by default the experiment's own.
        budgets: Of the auction; by default the experiment's own.
        runs: Run directories, or folders of `mmfl.compare`, whose curves tell how hard each task is
            after so much work.
        difficulty: By task, a difficulty that stays as it is. With neither, all tasks are equally
            hard.
        targets: The metric to reach, for all tasks or by task; by default each task's own.
        beta: A round with n clients is worth n^beta, in [0, 1]; by default what the runs tell, if
            they had different numbers of clients, else 0.25.
        draws: How many times each alpha and budget is drawn.
        data_dir: Folder of npz files; by default what MMFL_DATA says.
    """
    planning = Planning.of(
        experiment,
        alphas=alphas,
        budgets=budgets,
        runs=runs,
        difficulty=difficulty,
        targets=targets,
        beta=beta,
        draws=draws,
        data_dir=data_dir,
    )
    return planning.gathered(planning.trials())


def _recruited(
    experiment: Experiment, federation: Federation
) -> tuple[Population | None, RecruitedClients | None]:
    """Who may train what, None if nobody may; and what the auction decided, if it did."""
    try:
        population = Population.of(federation, experiment)
    except NobodyError:
        if experiment.recruitment is None:
            raise
        with suppress(NobodyError):  # they were recruited, but none of them is ever active
            return None, recruit(experiment, federation)
        return None, None
    return population, population.recruited


def _auction(recruited: RecruitedClients | None, tasks: Sequence[str]) -> Auctioned:
    """An auction in numbers; None recruited nobody."""
    if recruited is None:
        return Auctioned(np.zeros(len(tasks)), np.zeros(len(tasks)), np.ones(len(tasks), np.bool_))
    outcome, left = recruited.outcome, recruited.left_out
    return Auctioned(outcome.take_up, outcome.spend, np.array([task in left for task in tasks]))


def _about_beta(tasks: Mapping[str, Learning]) -> tuple[str, ...]:
    """Where beta is not what the runs tell, that is said."""
    if all(learning.told for learning in tasks.values()):
        return ()
    return (
        "These runs do not tell how much more a round with more clients is worth (it takes runs "
        f"with other numbers of clients in a round): n clients count as n^{DEFAULT_BETA:g}.",
    )
