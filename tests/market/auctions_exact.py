"""The slow comparison of Max-Min Fair with Algorithm 3 in exact rationals: `make auctions_exact`.

python tests/market/auctions_exact.py [INSTANCES] [SEED]
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from mmfl.market import max_min_fair, max_min_fair_by_rounds
from support.markets import MAX_MIN, adversarial, rationals, same


def main(count: int = 40_000, seed: int = 12_345) -> int:
    """How many instances differ; each of them is shown."""
    begun = time.monotonic()
    seen: Counter[str] = Counter()
    for number, case in enumerate(adversarial(count, seed, largest=16)):
        for name, options in MAX_MIN.items():
            fast = max_min_fair(*case, **options)
            try:
                same(fast, max_min_fair_by_rounds(*case, **options), case.budget)
                assert sum(rationals(fast.payment)) <= case.budget * (1 + 1e-9)
            except AssertionError as error:
                seen["different"] += 1
                sys.stdout.write(f"{number} {name}: {case.bids.tolist()} {case.budget!r}: {error}")
        seen["T = 0"] += not (fast.participation == 1).any()
        seen["S = 1"] += case.bids.shape[1] == 1
        seen["exhausted"] += fast.stop == "exhausted"
    kinds = ", ".join(f"{seen[kind]:,} with {kind}" for kind in ("T = 0", "S = 1"))
    sys.stdout.write(
        f"{count:,} instances ({kinds}, {seen['exhausted']:,} exhausted) x {len(MAX_MIN)} variants "
        f"in {time.monotonic() - begun:.0f} s: {seen['different']} differ from exact rationals\n"
    )
    return seen["different"]


if __name__ == "__main__":
    sys.exit(min(main(*map(int, sys.argv[1:])), 1))
