"""The slow comparison of Max-Min Fair with Algorithm 3 in exact rationals: 40,000 auctions."""

from __future__ import annotations

import pytest

from mmfl.market import max_min_fair, max_min_fair_by_rounds
from support.markets import MAX_MIN, adversarial, rationals, same

PARTS = 40


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_auction_is_that_of_exact_rationals(part):
    for number, case in enumerate(adversarial(40_000 // PARTS, 12_345 + part, largest=16)):
        for name, options in MAX_MIN.items():
            fast = max_min_fair(*case, **options)
            told = (number, name, case.bids.tolist(), case.budget)
            same(fast, max_min_fair_by_rounds(*case, **options), case.budget)
            assert sum(rationals(fast.payment)) <= case.budget * (1 + 1e-9), told
