"""Lies that pay, and printed rules that break, as small tables with round numbers.

`THEOREM` has one instance for each of the four cases of the paper's theorem "Untruthfulness
Conditions", under the repaired Algorithm 3 with its default options. All four cases can pay, with
the theorem's conditions c) to r) as printed, if `C` and the funds are those of the repaired rounds
(`mmfl.market.by_rounds.rounds_of`) and "there is enough money" reads A <= C. In words, for a client
whose cost is the l-th smallest of its task and whose lie is the t-th smallest:

1. the lie is paid for by other tasks; so was the truth (1b), or it joined in an earlier round (1a);
2. truth and lie both come in the last round, and the fraction is paid more;
3. the truth wins in an earlier round, and the lie's fraction is paid more than that;
4. the truth is paid for by other tasks; they cannot pay for the lie, but for a part of it.

The theorem says that the truth is best in all other cases. That is not so: `CE1` is an underbid
without any re-allocation, and `elsewhere` a lie that loses its task and pays in another.

`COUNTER_EXAMPLES` are lies apart from the theorem, and `FLAWS` what rules decide as printed where
that breaks the budget, pays less than the bid, or leaves out clients that can be had. Names such as
CE1 are those of docs/explanation/auctions.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from mmfl.market.bids import Bids
from mmfl.market.budget_fair import BudgetFair
from mmfl.market.max_min_fair import MaxMinFair
from mmfl.market.recruitment import Mechanism, Recruitment

__all__ = ["COUNTER_EXAMPLES", "FLAWS", "THEOREM", "Case", "Flaw"]

Table = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Case:
    """A lie that pays.

    Attributes:
        name: Of the case.
        statement: What it refutes or illustrates, in one sentence.
        mechanism: With its options.
        costs: N x S, the true ones; all others bid them.
        user: The row of the liar.
        lie: (S) what it bids instead.
        gain: What the lie adds to its utility.
        shows: How it comes about.
    """

    name: str
    statement: str
    mechanism: Mechanism
    costs: Table
    user: int
    lie: tuple[float, ...]
    gain: float
    shows: str

    @property
    def task(self) -> int:
        """The one task in which the bid is false."""
        (place,) = (s for s, c in enumerate(self.costs[self.user]) if c != self.lie[s])
        return place

    @property
    def false_bids(self) -> Bids:
        """What the auction sees if the client lies."""
        return Bids.of(self.costs).replace_row(self.user, self.lie)

    def outcomes(self) -> tuple[Recruitment, Recruitment]:
        """By the truth, and by the lie."""
        return self.mechanism.recruit(self.costs), self.mechanism.recruit(self.false_bids)

    def measured_gain(self) -> float:
        """What the lie adds, by running both auctions; `gain` is what it should be."""
        before, after = (each.utility(self.costs)[self.user] for each in self.outcomes())
        return float(after - before)


@dataclass(frozen=True)
class Flaw:
    """What a printed rule decides, and which property that breaks.

    Attributes:
        name: Of the counter-example.
        statement: The rule's mistake, in one sentence.
        mechanism: The repaired mechanism.
        bids: N x S.
        participation: N x S as the printed rule decides it.
        payment: N x S as the printed rule pays.
        breaks: "budget": it overspends; "rationality": somebody is paid less than its bid;
            "optimality": every task could have more clients; "waste": the repaired mechanism
            recruits more for the same money.
    """

    name: str
    statement: str
    mechanism: BudgetFair | MaxMinFair
    bids: Table
    participation: Table
    payment: Table
    breaks: Literal["budget", "rationality", "optimality", "waste"]


THEOREM = (
    Case(
        name="case 1a",
        statement="The truth joins in an earlier round, the lie joins with other tasks' money.",
        mechanism=MaxMinFair(40.0),
        costs=((3, inf), (7, 2), (inf, 1)),
        user=0,
        lie=(18, inf),
        gain=8.0,
        shows="Round 2 needs 36 for task 1, and task 2 lends all that it has beyond 4: the price "
        "rises from 10 to 18.",
    ),
    Case(
        name="case 1b",
        statement="Truth and lie both join with other tasks' money, and the lie gets more of it.",
        mechanism=MaxMinFair(10.0),
        costs=((6, inf), (10, 2), (inf, 5)),
        user=0,
        lie=(8, inf),
        gain=2.0,
        shows="Task 2 lends 3 instead of 1: the price rises from 6 to 8.",
    ),
    Case(
        name="case 2",
        statement="Truth and lie both end the auction, and the lie's fraction is paid more.",
        mechanism=MaxMinFair(60.0),
        costs=((18, inf), (4, 1), (5, 2), (inf, 3)),
        user=0,
        lie=(30, inf),
        gain=8.4,
        shows="Round 3 ends both auctions with C = 21. The truth is paid its cost, 18; the lie "
        "gets all 21 for 7/10 of the work.",
    ),
    Case(
        name="case 3",
        statement="The truth wins in an earlier round, the lie's fraction is paid more than that.",
        mechanism=MaxMinFair(60.0),
        costs=((5, inf), (inf, 3), (4, 1), (7, 4)),
        user=0,
        lie=(18, inf),
        gain=8.0,
        shows="The truth wins at the price 10. The lie needs 54 in round 3, which ends the "
        "auction; but C = 18 pays all of its own bid.",
    ),
    Case(
        name="case 4",
        statement="Other tasks can pay for the truth, and for the lie in part.",
        mechanism=MaxMinFair(30.0),
        costs=((9, inf), (inf, 2), (7, 1)),
        user=0,
        lie=(18, inf),
        gain=5.5,
        shows="The truth joins in round 2 at the price 9. The lie ends the auction there, and gets "
        "C = 11 for 11/18 of the work.",
    ),
)
"""The four cases of the theorem; case 1 in both its forms."""


COUNTER_EXAMPLES = (
    Case(
        name="CE1",
        statement="Budget-Fair with its printed price is not truthful.",
        mechanism=BudgetFair(1.0, "share"),
        costs=((0.30,), (0.35,), (0.40,)),
        user=2,
        lie=(0.34,),
        gain=0.10,
        shows="A loser underbids, replaces the second winner, and is paid the share .50.",
    ),
    Case(
        name="CE1, Algorithm 3",
        statement="Not only re-allocation makes Algorithm 3 untruthful, and not only overbids pay.",
        mechanism=MaxMinFair(1.0, "share"),
        costs=((0.30,), (0.35,), (0.40,)),
        user=2,
        lie=(0.34,),
        gain=0.10,
        shows="With one task nothing is re-allocated, and the same underbid pays.",
    ),
    Case(
        name="CE10",
        statement="No payment within the budget makes the max-min winners truthful.",
        mechanism=MaxMinFair(1.0, fractional=False),
        costs=((0.1, inf), (inf, 0.1)),
        user=0,
        lie=(0.9, inf),
        gain=0.4,
        shows="Either client wins up to .9 and would have to be paid that: 1.8 of a budget of 1.",
    ),
    Case(
        name="fraction",
        statement="A client recruited in part is paid its bid, and gains by asking for more.",
        mechanism=MaxMinFair(8.0),
        costs=((5, inf), (inf, 4)),
        user=0,
        lie=(8, inf),
        gain=1.5,
        shows="Task 1 has its own funds of 4, and pays all of them either way: for 4/5 of the work "
        "by the truth, for a half by the lie.",
    ),
    Case(
        name="elsewhere",
        statement="A lie in one task can pay in another, and cost every task a client.",
        mechanism=MaxMinFair(14.0, "share", fractional=False),
        costs=((4, 2), (4, 2)),
        user=0,
        lie=(6, 2),
        gain=4.0,
        shows="It ends the auction one round earlier: the client loses task 1, and is the only one "
        "to share the funds of task 2, 7 instead of 3.",
    ),
    Case(
        name="underbid elsewhere",
        statement="Even with critical payments and no fractions an underbid can pay.",
        mechanism=MaxMinFair(15.0, fractional=False),
        costs=((1, 2), (0, 5), (0, 0)),
        user=0,
        lie=(0, 2),
        gain=0.25,
        shows="It makes a third round possible: the client loses 1 in task 1, which it would not "
        "have won, and its price in task 2 rises from 3.75 to 5.",
    ),
)
"""Lies of the specification's counter-examples, and three more."""


FLAWS = (
    Flaw(
        name="CE1b",
        statement='"All bids smaller than b_k" win: with equal bids that is nobody.',
        mechanism=BudgetFair(1.0),
        bids=((0.4,), (0.4,), (0.4,)),
        participation=((0.0,), (0.0,), (0.0,)),
        payment=((0.0,), (0.0,), (0.0,)),
        breaks="optimality",
    ),
    Flaw(
        name="CE2",
        statement="Payments are fixed when clients join: B + B/2 + B/3 + ... is more than B.",
        mechanism=MaxMinFair(1.0),
        bids=((0.1,), (0.1,)),
        participation=((1.0,), (1.0,)),
        payment=((1.0,), (0.5,)),
        breaks="budget",
    ),
    Flaw(
        name="CE3",
        statement="Purses start at B / s: task 1 with B, task 2 with B/2.",
        mechanism=MaxMinFair(1.0),
        bids=((0.6, 0.3),),
        participation=((1.0, 1.0),),
        payment=((1.0, 0.5),),
        breaks="budget",
    ),
    Flaw(
        name="CE4",
        statement="Clients join if they bid at most B / t, but are paid from their task's funds.",
        mechanism=MaxMinFair(1.0),
        bids=((0.8, 0.8),),
        participation=((1.0, 1.0),),
        payment=((0.5, 0.5),),
        breaks="rationality",
    ),
    Flaw(
        name="CE5",
        statement="C is given to the fractional client and is also kept by those who give it.",
        mechanism=MaxMinFair(2.0),
        bids=((0.1, 0.5), (0.2, 2.5)),
        participation=((1.0, 1.0), (1.0, 0.24)),
        payment=((0.5, 1.0), (0.5, 0.6)),
        breaks="budget",
    ),
    Flaw(
        name="CE6",
        statement="A < C refuses a re-allocation for which there is exactly enough money.",
        mechanism=MaxMinFair(1.0),
        bids=((0.25, 0.75),),
        participation=((1.0, 1 / 3),),
        payment=((0.25, 0.25),),
        breaks="optimality",
    ),
    Flaw(
        name="CE7",
        statement="A levied in equal parts takes money that a task needs for its own client.",
        mechanism=MaxMinFair(3.0),
        bids=((0.99, 0.1, 1.5),),
        participation=((1.0, 1.0, 1.0),),
        payment=((0.75, 0.75, 1.5),),
        breaks="rationality",
    ),
    Flaw(
        name="CE8",
        statement="If the first round fails, the funds of the task that cannot pay are left idle.",
        mechanism=MaxMinFair(1.0),
        bids=((0.2, 0.9),),
        participation=((1.0, 1 / 3),),
        payment=((0.2, 0.3),),
        breaks="waste",
    ),
    Flaw(
        name="CE9",
        statement="C is split equally, and what a task cannot use of its part is lost.",
        mechanism=MaxMinFair(4.0, "share"),
        bids=((0.0, 0.0, 0.1, 0.1), (0.0, 0.0, 0.6, 3.0)),
        participation=((1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1 / 3)),
        payment=((0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 0.6, 1.0)),
        breaks="waste",
    ),
    Flaw(
        name="CE11",
        statement="If a fraction of the work costs as much as all of it, it is paid at a loss.",
        mechanism=MaxMinFair(2.0),
        bids=((0.2, 2.5),),
        participation=((1.0, 1.0),),
        payment=((0.2, 1.8),),
        breaks="rationality",
    ),
)
"""What printed rules decide, where that breaks a property that the repaired ones have."""
