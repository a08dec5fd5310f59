"""All errors that mmfl raises on purpose.

    MmflError                   one clear sentence; the command line prints it and exits with 2
    ├── InputError              a value from outside breaks a rule (also a ValueError)
    │   ├── ConfigError         ... in an experiment file or a ``--set``
    │   ├── DataError           ... in a data set or in the way it is partitioned
    │   └── NoClientsError      ... and leaves no client that could train anything
    ├── EngineError             the engine that trains the models failed
    ├── FetchError              a data set could not be fetched: network, disk, npm
    ├── ResourceError           the machine has too little memory for the experiment
    ├── StoreError              a run directory cannot be written or read
    └── ComparisonError         some runs of a comparison failed; the others are finished

`MmflWarning` is the category of all warnings, which are also one sentence. A bad *client* raises
nothing: it becomes a `mmfl.exchange.ClientFailure` and costs that client its turn.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

__all__ = [
    "ComparisonError",
    "ConfigError",
    "DataError",
    "EngineError",
    "FetchError",
    "InputError",
    "MmflError",
    "MmflWarning",
    "NoClientsError",
    "ResourceError",
    "StoreError",
    "describe_type",
    "did_you_mean",
    "one_line",
    "plural",
    "printable",
    "shorten",
    "text_of",
]


def printable(text: str) -> str:
    """A text with control characters escaped, for text that mmfl did not write."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class MmflError(Exception):
    """Base of all errors that mmfl raises on purpose: the message is one readable line.

    Control characters, such as an escape sequence in a key, are shown escaped. Of a very long word
    only the beginning and the end are shown.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(message))


def one_line(message: object) -> str:
    """A message as one line, with control characters escaped."""
    line = " ".join(line.strip() for line in str(message).splitlines())
    return printable(re.sub(r"(\S{200})\S{100,}(\S{50})", r"\1...\2", line))


def shorten(text: str, limit: int) -> str:
    """A text, or its beginning if it is longer than a message allows.

    >>> shorten("abcdefgh", 8), shorten("abcdefghi", 8)
    ('abcdefgh', 'abcde...')
    """
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def describe_type(value: object) -> str:
    """The type of a value with its article.

    >>> describe_type(""), describe_type(object())
    ('a str', 'an object')
    """
    name = type(value).__name__
    return f"{'an' if name[:1] in 'aeioAEIO' else 'a'} {name}"


def text_of(error: BaseException) -> str:
    """The text of an exception as one line, even if printing the user's exception fails."""
    try:
        return " ".join(str(error).split())
    except KeyboardInterrupt:
        raise
    except BaseException as failure:
        return f"(no text: its __str__ raised {type(failure).__name__})"


class MmflWarning(UserWarning):
    """Something that the user should know, although the work continues."""


class InputError(MmflError, ValueError):
    """A value from outside breaks a rule: the message names the field, the rule and the value."""


class ConfigError(InputError):
    """An experiment (file, ``--set`` or keyword) breaks a rule.

    Attributes:
        mistakes: A sentence for each mistake; the message has only the first.
    """

    def __init__(self, message: object = "", mistakes: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.mistakes = tuple(map(one_line, mistakes)) or (str(self),)


class DataError(InputError):
    """A data set is missing or malformed, or cannot be partitioned as asked."""


class NoClientsError(InputError):
    """No client is left to train: none holds data, or is recruited, or is ever active."""


class EngineError(MmflError):
    """The engine failed: a worker does not start, or a model cannot be evaluated."""


class FetchError(MmflError):
    """A data set could not be fetched: a server, the disk, or npm refused."""


class ResourceError(MmflError):
    """The machine has too little memory for the experiment: the message names the setting."""


class StoreError(MmflError):
    """A run directory cannot be written or read."""


class ComparisonError(MmflError):
    """Some runs of a comparison failed; the others are finished and stored."""


def plural(number: int, noun: str) -> str:
    """A number and its noun.

    >>> plural(1, "task"), plural(1200, "task")
    ('1 task', '1,200 tasks')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A clause that helps with a misspelt `word`: the nearest known one, or the list of them.

    >>> did_you_mean("alhpa", ["alpha", "floor"])
    "did you mean 'alpha'?"
    """
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known: {', '.join(names)}" if names else "none is known"
