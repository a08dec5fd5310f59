"""Errors in code that the user wrote: one sentence that says which part failed, and where.

An experiment may name the user's classes and functions, and they may raise anything.
``sys.exit`` would end the program, `typer.Exit(0)` would even look like success, and a full disk in
their code is not a full disk in mmfl's. So every call of such a part is inside a guard:

    with guard_part("allocator", allocator):
        answer = allocator.allocate(...)

What is not an error of the part passes all guards: mmfl's own errors, Ctrl-C, what a signal handler
of the user's program raises, and the `GeneratorExit` of a generator that is closed.
"""

from __future__ import annotations

import builtins
import functools
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from mmfl.errors import EngineError, MmflError, MmflWarning, printable, shorten, text_of
from mmfl.system.definitions import describe_place, find_definition
from mmfl.system.memory import describe_shortage
from mmfl.system.tracebacks import (
    find_frames,
    is_handed,
    is_installed,
    is_library_code,
    is_users,
    lead_to,
    walk,
)

__all__ = [
    "Guard",
    "add_prefix",
    "describe_error",
    "describe_part",
    "guard_own",
    "guard_part",
    "is_own",
    "is_users_class",
    "pass_on",
    "warn_user",
]


TEXT = 800
"""Letters of an exception's text in a message: one may print a whole tensor."""


HEAP_TYPE = 1 << 9
"""The flag of classes that were made by a class statement; see Py_TPFLAGS_HEAPTYPE."""


class Guard:
    """Turn what a block raises into one sentence about the part that is called in it.

    Args:
        failed: What the sentence starts with, such as "task 'a': its partition failed", or a
            function that says it, which is called only if there is an error.
        kind: The error to raise.
        part: What is called. By default the block may call several parts, and an error counts only
            if it went through user code.
        always: Whether errors in a built-in part count, too.
        wraps: Whether mmfl's own errors also get these words; by default they are raised as they
            are.
        hint: What may help, as a clause for the end of the sentence; "" if nothing is known.
    """

    def __init__(
        self,
        failed: str | Callable[[], str],
        kind: type[MmflError] = EngineError,
        *,
        part: object = None,
        always: bool = False,
        wraps: bool = False,
        hint: Callable[[BaseException], str] = lambda _: "",
    ) -> None:
        self._failed, self._kind, self._part = failed, kind, part
        self._hint = hint
        self._always, self._wraps = always, wraps

    def __enter__(self) -> None:
        """Nothing is done before there is an error."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Raise the sentence; return if the exception is to be raised as it is."""
        if error is None or (isinstance(error, MmflError) and not self._wraps):
            return
        stop = _find_stop(error, self._part)
        if stop is not None and stop is not error:
            raise stop from None
        if stop is not None:
            return
        if self._always or self._is_users(error):
            said = describe_error(error, self._part) + self._hint(error)
            failed = self._failed if isinstance(self._failed, str) else self._failed()
            raise lead_to(self._kind(f"{failed}: {said}"), error) from error

    def _is_users(self, error: BaseException) -> bool:
        if self._part is not None:
            return is_own(self._part) and not is_handed(error)
        return bool(find_frames(error))


def guard_part(
    what: str, part: object, *, task: str | None = None, kind: type[MmflError] = EngineError
) -> Guard:
    """A guard for one part; an error in a built-in part is a defect, and is raised as it is.

    Args:
        what: What kind of part it is, such as "allocator".
        part: The part that is called in this block.
        task: The name of the task that it is called for.
        kind: The error to raise.
    """
    of = "" if task is None else f"task {task!r}: "
    return Guard(lambda: f"{of}the {what} {describe_part(part)} failed", kind, part=part)


def guard_own(what: str = "your code") -> Guard:
    """A guard for whatever a block calls: an error counts if it went through the user's code."""
    return Guard(f"{what} failed")


def warn_user(text: str) -> None:
    """A warning at the line of the user's program that called mmfl."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and not is_users(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(printable(text), MmflWarning, stacklevel=level)


def is_own(part: object) -> bool:
    """Whether a part is the user's: its class, or the function that a built-in class calls."""
    ours = type(part).__module__.partition(".")[0] == "mmfl"
    return not ours or getattr(part, "function", None) is not None


def is_users_class(kind: type) -> bool:
    """Whether the user wrote a class: it is not of a library, nor of Python itself."""
    module = kind.__module__
    if module == "builtins":  # so is what `exec` defines without a __name__
        return bool(kind.__flags__ & HEAP_TYPE) and not hasattr(builtins, kind.__name__)
    if module.partition(".")[0] in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return not is_library_code(file, module) and not is_installed(file)


def describe_part(part: object) -> str:
    """A function by its name, any other part as it is written in Python, shortened.

    If it cannot be printed, it is its class.
    """
    name = getattr(getattr(part, "function", None), "name", None)
    if isinstance(name, str):
        return repr(name)
    try:
        return shorten(repr(part), 200)
    except BaseException as error:
        pass_on(error)
        return f"{type(part).__name__}(...)"


def describe_error(error: BaseException, *parts: object) -> str:
    """An exception in a few words, with the innermost lines of user code that it went through.

    If it went through none, as where layers of torch do not fit together, it is where the first
    part that is the user's is defined.

    Args:
        error: An exception that was caught.
        parts: What was called; their own packages count as user code, also if they are installed.
    """
    text = text_of(error)
    if isinstance(error, MmflError):
        return text
    name = type(error).__name__
    if isinstance(error, RecursionError):  # where it ends differs, and so do the last words
        text = text.partition(" while ")[0].partition(" in ")[0]
    said = describe_shortage(error) or (f"{name}: {shorten(text, TEXT)}" if text else name)
    frames = find_frames(error, _packages(*parts))
    place = "; ".join(map(str, frames)) or next(filter(None, map(find_definition, parts)), None)
    return f"{said} ({place})" if place else said


def add_prefix(error: MmflError, prefix: str, part: object = None) -> MmflError:
    """The error with some words before its sentence, to be raised from what is behind it.

    A user's class may not allow that; then it is one of mmfl's.

    Args:
        error: The error.
        prefix: The words.
        part: If nothing is behind it, it is about what this part returned: where that is defined.
    """
    place = describe_place(part) if error.__cause__ is None else ""
    kinds = (kind for kind in type(error).__mro__ if kind.__module__ == "mmfl.errors")
    kind = type(error) if type(error).__module__.startswith("mmfl.") else next(kinds)
    made: MmflError = kind(f"{prefix}{text_of(error)}{place}")
    made.__cause__ = error.__cause__
    return lead_to(made, error)


def pass_on(error: BaseException, part: object = None) -> None:
    """Raise what is not an error of the code that it went through, but is to end the program.

    That is Ctrl-C, also as one of a group; what a signal handler of the user's program raises,
    whatever it is; the `GeneratorExit` of an mmfl generator that is closed; and an exception
    with an attribute `ends_command`, as there is one for output that nobody reads any more.
    """
    stop = _find_stop(error, part)
    if stop is error:
        raise error
    if stop is not None:
        raise stop from None


def _find_stop(error: BaseException, part: object) -> BaseException | None:
    """What is to end the program: the exception, or one of its group; None if it is an error."""
    for one in _split(error):
        ends = isinstance(one, KeyboardInterrupt) or getattr(one, "ends_command", False)
        if ends or _is_from_signal(one):
            return one
    closed = isinstance(error, GeneratorExit) and not find_frames(error, _packages(part))
    return error if closed else None


def _split(error: BaseException) -> Iterator[BaseException]:
    """The exception, or those of a group."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _split(one)
    else:
        yield error


def _is_from_signal(error: BaseException) -> bool:
    """Whether a signal handler of the user's program raised this.

    A handler is known by its code. What is not an ordinary exception, such as `SystemExit`, also
    comes from a handler that has taken itself back, if a frame was given the one before it: the
    one that the signal interrupted. An ordinary exception of a handler in the module of a part is
    the part's, which has set itself a time limit.
    """
    handlers = {_find_code(signal.getsignal(number)) for number in signal.valid_signals()}
    ordinary, before = isinstance(error, Exception), list[FrameType]()
    for frame, _ in walk(error.__traceback__):
        if frame.f_code in handlers:
            script = frame.f_globals.get("__name__") == "__main__"
            parts = any(outer.f_globals is frame.f_globals for outer in before)
            return not ordinary or script or not parts
        if not ordinary and before and _was_given(frame, before[-1]):
            return True
        before.append(frame)
    return False


def _find_code(handler: Any) -> CodeType | None:
    """The code that a signal handler runs first; None if it is not written in Python."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not hasattr(handler, "__code__"):
        handler = getattr(handler, "__call__", None)  # noqa: B004  (an object that can be called)
    return getattr(handler, "__code__", None)


def _was_given(frame: FrameType, before: FrameType) -> bool:
    """Whether a variable of a frame is the one before it, perhaps as one of ``*arguments``."""
    values = [[*v] if type(v) is tuple else [v] for v in frame.f_locals.values()]
    return any(value is before for some in values for value in some)


def _packages(*parts: object) -> set[str]:
    """The packages that parts come from: not mmfl, whose classes may call a user's function."""
    names = {type(part).__module__ for part in parts}
    names |= {getattr(getattr(part, "function", None), "path", "") for part in parts}
    packages = {name.partition(":")[0].partition(".")[0] for name in names}
    return packages - {"", "__main__", "builtins", "mmfl"}
