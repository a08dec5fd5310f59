"""A convergence experiment whose clients are recruited by an auction, and what its theorem assumes.

Siew et al., "Fair Concurrent Training of Multiple Models in Federated Learning", the theorem
"Convergence with Auctions". As printed, it is best when nobody joins; see
docs/explanation/theory.md for what is true, and docs/explanation/convergence.md for measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import numpy.typing as npt

from mmfl.convergence.problem import Floats
from mmfl.convergence.setting import Setting
from mmfl.errors import InputError
from mmfl.experiment import Experiment, RecruitmentSettings
from mmfl.market import BudgetFair, MaxMinFair, replace_budget
from mmfl.market.bids_io import Csv, Distribution, cdf_of
from mmfl.theory import (
    Constants,
    expected_take_up,
    join_budget_fair,
    join_max_min,
    lowest,
    no_user_probability,
)

__all__ = ["AuctionSetting"]


@dataclass(frozen=True, kw_only=True)
class AuctionSetting:
    """A setting in which a client trains only the tasks that it won in an auction before round one.

    There is one auction. A task that it recruits nobody for is never trained and keeps its initial
    model. (In an experiment with `recruitment.empty = "leave_out"`, the money of such a task goes
    to the other tasks in a second auction. The theorem does not have one, nor does this setting.)

    The mechanism is Budget-Fair, or Max-Min Fair without fractional winners: for these the chance
    that a task recruits nobody is known exactly. A fractional winner would take part in a share of
    the rounds only. That share can be next to 0, so that no bound on the selection skew would hold.

    Attributes:
        setting: The tasks and how they are trained. `alpha` and `active` must be 1, and all clients
            must hold equally much of a task: see `skew`.
        recruitment: The mechanism with its budget, and a bid model for each task; bids for
            different tasks must be independent.
    """

    setting: Setting
    recruitment: RecruitmentSettings

    def __post_init__(self) -> None:
        setting, recruitment = self.setting, self.recruitment
        if setting.alpha != 1.0 or setting.active != 1.0:
            given = f"alpha = {setting.alpha:g} and active = {setting.active:g}"
            raise InputError(f"alpha and active must be 1 with an auction, got {given}")
        for name, problem in setting.tasks.items():
            if len(set(problem.sizes.tolist())) != 1:
                sizes = ", ".join(map(str, problem.sizes))
                raise InputError(
                    f"all clients must hold the same amount of data for {name!r}, got {sizes}"
                )
        mechanism = recruitment.mechanism
        whole = isinstance(mechanism, MaxMinFair) and not mechanism.fractional
        if not whole and not isinstance(mechanism, BudgetFair):
            rule = "the mechanism must be BudgetFair, or MaxMinFair with fractional=False"
            raise InputError(f"{rule}, got {mechanism}")
        recruitment.check_tasks(list(setting.tasks))
        if isinstance(recruitment.bids, Csv) or recruitment.correlation:
            raise InputError("bids must be from bid models, with correlation 0")

    @property
    def N(self) -> int:  # noqa: N802
        """How many users bid."""
        return self.setting.K

    @property
    def budget(self) -> float:
        """B, of all tasks."""
        mechanism = self.recruitment.mechanism
        assert isinstance(mechanism, BudgetFair | MaxMinFair)
        return mechanism.budget

    def hold_auction(self, seed: int) -> dict[str, tuple[int, ...]]:
        """Who wins each task, in ascending order: the auction of an experiment with this seed."""
        names = list(self.setting.tasks)
        bids = self.recruitment.collect_bids(names, range(self.N), seed)
        winners = self.recruitment.mechanism.recruit(bids).winners
        return {name: tuple(sorted(won.tolist())) for name, won in zip(names, winners, strict=True)}

    def experiment(self, seed: int, tasks: Collection[str]) -> Experiment:
        """An experiment that recruits for these tasks as the auction for all of them does.

        Args:
            seed: Of the experiment.
            tasks: Those for which `hold_auction` found somebody. The others are left out with their
                share of the money, B/S each. Budget-Fair gives each task just that share, so this
                does not change who wins the tasks that stay. (A bid depends on nothing but the
                seed, its task and its client.) Max-Min gives all tasks the same number of winners,
                so it leaves out either none or all.
        """
        kept = {name: self.setting.tasks[name] for name in self.setting.tasks if name in tasks}
        budget = self.budget * len(kept) / len(self.setting.tasks)
        recruitment = replace(
            self.recruitment,
            mechanism=replace_budget(self.recruitment.mechanism, budget),
            tasks={name: law for name, law in self.recruitment.tasks.items() if name in kept},
        )
        experiment = replace(self.setting, tasks=kept).experiment(seed)
        # with alpha = 1 the allocation does not depend on f_s: one client's loss will do for it
        return replace(experiment, recruitment=recruitment, score_clients=1)

    def constants(self, task: str) -> Constants:
        """All that the theorem assumes of a task, valid for every set W of winners.

        - L, mu, sigma and G are suprema over all clients, and over the region that training can
          reach. With fewer clients the suprema are over fewer, and so is the region: a box, or a
          ball, that all examples and the start determine.
        - Gamma: `Problem.gap_of_any`.
        - rho: `skew`.
        """
        given = self.setting.tasks[task].constants(
            tau=self.setting.tau, batch_size=self.setting.batch_size, skew=self.skew()
        )
        return replace(given, gap=self.setting.tasks[task].gap_of_any)

    def distance(self, task: str) -> float:
        """A bound on |w^(0) - w_W*|^2 for every set of winners: `Problem.distance_of_any`."""
        return self.setting.tasks[task].distance_of_any

    def skew(self) -> tuple[float, float]:
        """Bounds on the selection skew, given that somebody trains, for every set of winners.

        A client that won c tasks draws each of them with chance 1/c (alpha = 1). So the winners of
        a task train it with *different* chances q_k from 1/S to 1, which depend on the other tasks'
        auctions, and the skew is not 1 although all hold equally much. Of K winners, client k has
        the weight

            omega_k = q_k E[1/(1 + X)] / (1 - (1 - q_k) c),   c = prod over j != k of (1 - q_j),

        where X counts the others that are selected, and the skew is between the least and the
        greatest K omega_k. As q_k grows, omega_k does not fall: its derivative has the sign of
        1 - c. As another q_j grows, neither numerator nor c grows, so omega_k does not grow. Hence
        the extremes are at the ends:

        - Greatest, q_k = 1 and q_j = 1/S: K E[1/(1 + Bin(K - 1, 1/S))] = S (1 - (1 - 1/S)^K), which
          grows with K <= N.
        - Least, q_k = 1/S and q_j = 1: somebody trains in every round, and K (1/S)(1/K) = 1/S. (For
          K = 1 it is 1.)

        With alpha > 1, q_k could be next to 0 for a client that won two tasks, and would be 1 for
        one that won a single task: no positive bound would hold.
        """
        S, N = len(self.setting.tasks), self.N
        return (1.0 / S if N > 1 else 1.0), S * (1.0 - (1.0 - 1.0 / S) ** N)

    def nobody(self, task: str) -> float:
        """The chance that the auction recruits nobody for a task: exact, from `mmfl.theory`.

        Budget-Fair: that the lowest of N bids for it exceeds B/S. Max-Min: that the lowest bids of
        all tasks add up to more than B; then no task has anybody.
        """
        if isinstance(self.recruitment.mechanism, BudgetFair):
            share = self.budget / len(self.setting.tasks)
            return no_user_probability(share, [lowest(self._cdf(task), self.N)], "budget_fair")
        cdfs = [lowest(self._cdf(name), self.N) for name in self.setting.tasks]
        return no_user_probability(self.budget, cdfs, "max_min_fair")

    def join(self, task: str) -> float:
        """The chance that a user wins a task, before its bid is known: for the printed theorem.

        The theorem has a factor 1 - prod over users of (1 - p_i), where p_i is the chance that user
        i wins with its bid b_i. The bids are independent, and p_i depends on b_i alone, so the mean
        of this factor over all bids is 1 - (1 - p)^N, where p is the mean of p_i. This is that p,
        from the true joining probabilities (Max-Min's is not the printed one).
        """
        own = self._cdf(task)
        others = [self._cdf(name) for name in self.setting.tasks if name != task]

        def win(bid: float) -> float:
            if isinstance(self.recruitment.mechanism, BudgetFair):
                return join_budget_fair(bid, self.N, 1 + len(others), self.budget, own)
            return join_max_min(bid, self.N, self.budget, own, others)

        return expected_take_up(self.N, self._law(task), win) / self.N

    def _law(self, task: str) -> Distribution:
        law: Distribution = self.recruitment.tasks.get(task, self.recruitment.bids)
        return law

    def _cdf(self, task: str) -> Callable[[Floats], npt.ArrayLike]:
        return cdf_of(self._law(task))
