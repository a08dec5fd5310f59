"""What-if planning: what alphas and budgets will do, before anything is spent.

Every scenario (an alpha and a budget) is drawn several times. A draw is the round loop of
`mmfl.rounds` on a `Surrogate`: the auction is held, clients are active, the allocator allocates,
faults happen; only training is replaced, by what is known of the tasks. The federation (who holds
what) is the experiment's own; everything else is drawn anew: simulated bids, activity, allocation,
faults. Scenarios share their draws' seeds, so that differences between them are not chance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mmfl.errors import InputError, MmflWarning, NoClientsError
from mmfl.experiment import DataCache, Experiment, Federation, check_experiment, simulate
from mmfl.loop import Population, RecruitedClients, recruit, rounds
from mmfl.planning.histories import fit_runs
from mmfl.planning.learning import DEFAULT_BETA, Learning
from mmfl.planning.options import (
    check_beta,
    check_difficulties,
    check_draws,
    find_budget,
    find_targets,
    set_alpha,
    set_budget,
)
from mmfl.planning.outlook import Plan, Source
from mmfl.planning.scenarios import summarize_trials
from mmfl.planning.surrogate import Fixed, Predictor, Surrogate, make_surrogate_experiment
from mmfl.planning.trials import Auction, Trial, TrialTally
from mmfl.rng import stream

__all__ = ["DRAWS", "Knowledge", "Planning", "plan"]

DRAWS = 50

Watch = Callable[[Iterable[Trial], int], Iterable[Trial]]
"""From trials and their number to the same trials, one after the other."""


@dataclass(frozen=True, eq=False)
class Knowledge:
    """How hard the tasks are.

    Attributes:
        source: Where that comes from.
        predictors: By task, what is known of it.
        runs: The run directories that were read.
        notes: What a person should know.
    """

    source: Source
    predictors: Mapping[str, Predictor]
    runs: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Planning:
    """A plan that is ready to be drawn.

    Attributes:
        experiment: What is planned.
        federation: Who holds what: the experiment's own, in every draw.
        knowledge: How hard the tasks are.
        targets: By task, the metric to reach; tasks without one are left out.
        alphas: None = as it is.
        budgets: None = as it is.
        draws: Of each scenario.
    """

    experiment: Experiment
    federation: Federation
    knowledge: Knowledge
    targets: Mapping[str, float]
    alphas: tuple[float | None, ...]
    budgets: tuple[float | None, ...]
    draws: int

    @property
    def steps(self) -> int:
        """How many trials there are."""
        return self.draws * len(self.alphas) * len(self.budgets)

    def trials(self) -> Iterator[Trial]:
        """Draw after draw, each with all budgets and alphas; an auction serves all alphas."""
        for draw in range(self.draws):
            seed = int(stream(self.experiment.seed, "plan", draw).integers(2**63))
            for budget in self.budgets:
                base = make_surrogate_experiment(set_budget(self.experiment, budget), seed)
                population, recruited = _recruit(base, self.federation)
                for alpha in self.alphas:
                    yield self._try(draw, set_alpha(base, alpha), population, recruited)

    def summarize(self, trials: Iterable[Trial]) -> Plan:
        """The plan that trials make."""
        trials = tuple(trials)
        tasks, predictors = self.federation.tasks, self.knowledge.predictors
        return Plan(
            scenarios=summarize_trials(trials, tasks, self.targets, self.knowledge.source),
            rounds=self.experiment.rounds,
            draws=self.draws,
            tasks=tasks,
            source=self.knowledge.source,
            runs=self.knowledge.runs,
            beta={task: t.beta for task, t in predictors.items() if isinstance(t, Learning)},
            notes=(*self.knowledge.notes, *self._notes(trials)),
        )

    def _notes(self, trials: Iterable[Trial]) -> Iterator[str]:
        experiment = self.experiment
        if experiment.faults is not None and experiment.faults.clients:
            yield "The plan counts the turns of hostile clients, not what they do to the models."
        stops = experiment.recruitment is not None and experiment.recruitment.empty == "stop"
        auctions = [trial.auction for trial in trials if trial.auction is not None]
        if stops and any(auction.left_out.any() for auction in auctions):
            yield (
                "A task that recruits nobody is left out of the plan. With recruitment.empty = "
                '"stop", as in this experiment, such a run would not start.'
            )

    def _try(
        self,
        draw: int,
        experiment: Experiment,
        population: Population | None,
        recruited: RecruitedClients | None,
    ) -> Trial:
        """One draw of one scenario, from the auction to the last round."""
        tasks, predictors = self.federation.tasks, self.knowledge.predictors
        tally = TrialTally(tasks, predictors, self.targets, draw)
        if population is None:
            tally.skip_rounds(experiment.rounds)
        else:
            engine = Surrogate(experiment, self.federation, predictors)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MmflWarning)  # of tasks left out: they are counted
                for state, record in rounds(experiment, engine=engine, population=population):
                    tally.add_round(record, state.params)
        return tally.make_trial(
            alpha=getattr(experiment.allocator, "alpha", None),
            budget=find_budget(experiment),
            auction=None if experiment.recruitment is None else Auction.of(recruited, tasks),
            rounds=experiment.rounds,
        )


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
    watch: Watch | None = None,
) -> Plan:
    """Predict the effect of alphas and budgets: clients, take-up, spend, starved rounds, targets.

    Args:
        experiment: The experiment to predict; nothing is trained.
        alphas: Values of the allocator's alpha, in [1, inf]; by default the experiment's.
        budgets: Budgets of the auction; by default the experiment's.
        runs: Run directories, or folders of `mmfl.compare`, whose curves show how hard each task is
            after a given amount of work.
        difficulty: By task, a fixed difficulty. With neither `runs` nor this, all tasks are equally
            hard.
        targets: The metric to reach, for all tasks or by task; by default each task's own.
        beta: A round with n clients is worth n^beta, in [0, 1]; by default fitted to the runs, if
            they had different numbers of clients, else 0.25.
        draws: How many times each alpha and budget is simulated.
        data_dir: Folder of npz files; by default $MMFL_DATA.
        watch: Shows progress: it gets the trials and their number, and yields each trial.
    """
    check_experiment(experiment)
    check_draws(draws)
    if runs and difficulty is not None:
        raise InputError(
            "difficulty and runs cannot be used together: both say how hard the tasks are"
        )
    check_beta(beta, bool(runs))
    for alpha in alphas:
        set_alpha(experiment, alpha)
    for budget in budgets:
        set_budget(experiment, budget)
    planning = Planning(
        experiment=experiment,
        knowledge=_know(experiment, runs, difficulty, beta),
        targets=find_targets(experiment, targets, bool(runs)),
        federation=_simulate(experiment, data_dir),
        alphas=tuple(dict.fromkeys(alphas)) or (None,),
        budgets=tuple(dict.fromkeys(budgets)) or (None,),
        draws=draws,
    )
    trials = planning.trials()
    return planning.summarize(trials if watch is None else watch(trials, planning.steps))


def _know(
    experiment: Experiment,
    runs: Sequence[str | Path],
    difficulty: Mapping[str, float] | None,
    beta: float | None,
) -> Knowledge:
    """How hard the tasks are: from runs, as given, or all the same."""
    names = [task.name for task in experiment.tasks]
    if runs:
        fit = fit_runs(experiment, runs, beta=beta)
        notes = (*fit.notes, *_note_beta(fit.tasks))
        return Knowledge("runs", fit.tasks, fit.folders, notes)
    if difficulty is not None:
        given = check_difficulties(difficulty, names)
        return Knowledge("difficulty", {task: Fixed(f) for task, f in given.items()})
    alike = (
        "All tasks are assumed equally hard, so alpha makes no difference: pass runs or difficulty."
    )
    has_alpha = hasattr(experiment.allocator, "alpha")
    return Knowledge("equal", dict.fromkeys(names, Fixed(1.0)), notes=(alike,) if has_alpha else ())


def _note_beta(tasks: Mapping[str, Learning]) -> tuple[str, ...]:
    """A sentence where beta is not what the runs tell."""
    if all(learning.beta_known for learning in tasks.values()):
        return ()
    return (
        "These runs cannot show how much additional clients per round would help; that needs runs "
        f"with different numbers of clients. Until then, n clients count as n^{DEFAULT_BETA:g}.",
    )


def _simulate(experiment: Experiment, data_dir: str | Path | None) -> Federation:
    """The federation of the experiment itself."""
    resolved = experiment.resolved()
    folder = None if data_dir is None else Path(data_dir)
    return simulate(resolved, DataCache(folder).arrays(resolved))


def _recruit(
    experiment: Experiment, federation: Federation
) -> tuple[Population | None, RecruitedClients | None]:
    """Who may train what, None if nobody may; and what the auction decided, if it did."""
    try:
        population = Population.of(federation, experiment)
    except NoClientsError:
        if experiment.recruitment is None:
            raise
        with suppress(NoClientsError):  # they were recruited, but none of them is ever active
            return None, recruit(experiment.recruitment, federation, experiment.seed)
        return None, None
    return population, population.recruited
