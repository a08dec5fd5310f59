"""`hold`: one thread at a time, whatever the object is."""

from __future__ import annotations

import os
from threading import Event, Thread

from mmfl.system.turns import hold
from support.forking import fork_and_wait
from support.waiting import wait_until_done_or_held


class Slotted:
    """Neither weak references nor a hash."""

    __slots__ = ()
    __hash__ = None

    def __eq__(self, other):
        return True


def test_a_thread_waits_for_another_that_holds_the_object_but_never_for_an_equal_one():
    one, other = Slotted(), Slotted()
    order: list[str] = []

    def use(thing: Slotted, name: str) -> None:
        with hold(thing):
            order.append(name)

    threads = [Thread(target=use, args=args) for args in ((one, "one"), (other, "other"))]
    with hold(one), hold(one):
        for thread in threads:
            thread.start()
            wait_until_done_or_held(thread)
        order.append("here")
    for thread in threads:
        thread.join()
    assert order == ["other", "here", "one"]


def test_what_a_thread_holds_is_free_in_a_forked_process():
    thing, held, end = Slotted(), Event(), Event()

    def keep() -> None:
        with hold(thing):
            held.set()
            end.wait()

    thread = Thread(target=keep)
    thread.start()
    held.wait()
    code = fork_and_wait()
    if code is None:
        with hold(thing):
            os._exit(7)
    end.set()
    thread.join()
    assert code == 7
