"""How many rows of which class each client gets, if no row may lie with two clients.

The problem: K clients, each with a few classes that it drew at random, and classes with a number
of rows each. Find counts such that no class gives more rows than it has, every client gets the
number of rows that it asks for, from the classes that it drew, and about as many from each of them.
Where that is impossible, let as few clients as we can hold other classes than they drew.

The method (`share_some`): clients take in turn.

1. A client takes equal numbers from its classes, but of a class that is short no more than its fair
   share: what is left, divided among this client and those after it by what they ask for. So those
   who come first take no more than those who come last.
2. If its classes have too little left, earlier clients give rows back and take rows of another of
   their own classes instead: a path of such moves to a class that has rows to spare, found by
   breadth-first search over the classes. Nobody's classes change.
3. If there is no path, the data has run out: the client gives up the class with the fewest rows
   left for the one with most to spare, and 2. is tried again.
4. If that does not help, all is done again, and the last half of the clients hold the classes of
   which most is left, instead of those that they drew; then the last three quarters, and so on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mmfl.data.partition.base import Ints
from mmfl.errors import DataError

__all__ = ["Places", "share_all", "share_some"]

Places = npt.NDArray[np.int32]
Exchange = tuple[int, int, int]  # a client, and the places of the classes that it gives and takes


def share_all(supply: Ints, drawn: Places) -> tuple[Places, Ints]:
    """All rows of every class that somebody drew, in even pieces among those who did.

    Where a class has fewer rows than clients that drew it, the others get the class that has most
    rows to spare.

    Args:
        supply: (C) rows of each class.
        drawn: (K, W) the classes that each client drew.

    Returns:
        (K, W) the classes that each client holds, -1 = none, and how many rows of each.
    """
    own = drawn.copy()
    owners = np.bincount(own.ravel(), minlength=len(supply))
    if (owners > supply).any():
        _spread(supply, own, owners)
    counts = np.zeros(own.shape, np.int64)
    total = np.zeros(len(own), np.int64)
    by_class = np.argsort(own, axis=None, kind="stable")
    ends = np.searchsorted(own.ravel()[by_class], np.arange(len(supply) + 1))
    for rows, start, end in zip(supply.tolist(), ends[:-1], ends[1:], strict=True):
        places = by_class[start:end]
        if len(places):
            # The first pieces may be one row longer: they go to those who have least so far.
            who = places // own.shape[1]
            order = np.argsort(total[who], kind="stable")
            pieces = np.full(len(who), rows // len(who))
            pieces[order[: rows % len(who)]] += 1
            counts.flat[places] = pieces
            total[who] += pieces
    return own, counts


def _spread(supply: Ints, own: Places, owners: Ints) -> None:
    """Change `own` so that no class has more clients than rows: everybody's first class first."""
    taken = np.zeros_like(supply)
    for place in range(own.shape[1]):
        for client in range(len(own)):
            c = own[client, place]
            if taken[c] == supply[c]:
                owners[c] -= 1
                spare = (supply - owners).astype(np.float64)
                spare[own[client][own[client] >= 0]] = -np.inf  # it has them, or gives them up
                spare[taken == supply] = -np.inf
                c = int(np.argmax(spare)) if spare.max() > -np.inf else -1
                own[client, place] = c
                if c < 0:
                    continue
                owners[c] += 1
            taken[c] += 1


def share_some(supply: Ints, drawn: Places, sizes: Ints) -> tuple[Places, Ints]:
    """To each client its number of rows, from its classes as evenly as the data allows.

    Args:
        supply: (C) rows of each class.
        drawn: (K, W) the classes that each client drew; one that asks for fewer rows than it drew
            classes uses only the first.
        sizes: (K) rows that each client asks for.

    Returns:
        (K, W) the classes that each client holds, and how many rows of each.
    """
    first = len(drawn)
    while True:
        try:
            return _take_turns(supply, drawn, sizes, first)
        except DataError:
            if not first:
                raise
            first //= 2


def _take_turns(supply: Ints, drawn: Places, sizes: Ints, first: int) -> tuple[Places, Ints]:
    """One try; clients from `first` on hold the classes of which most is left."""
    ahead = np.zeros_like(supply)
    for place in range(drawn.shape[1]):
        asks = np.flatnonzero(sizes[:first] > place)
        ahead += np.bincount(drawn[asks, place], sizes[asks], len(supply)).astype(np.int64)
    counts = np.zeros(drawn.shape, np.int64)
    draft = _Draft(supply.copy(), ahead, drawn.copy(), counts, _Links(len(supply)))
    for client, size in enumerate(sizes.tolist()):
        draft.serve(client, size, as_drawn=client < first)
    return draft.own, draft.counts


@dataclass(frozen=True, eq=False)
class _Draft:
    """Clients that take rows, one after the other.

    Attributes:
        left: (C) rows of each class that nobody has.
        ahead: (C) rows that clients whose turn is still to come ask for, of any of their classes.
        own: (K, W) the clients' classes.
        counts: (K, W) the rows that they have of them.
        links: The exchanges that have been looked up so far.
    """

    left: Ints
    ahead: Ints
    own: Places
    counts: Ints
    links: _Links

    def serve(self, client: int, size: int, *, as_drawn: bool) -> None:
        """Let a client take that many rows."""
        mine = self.own[client, :size]  # a view: a change of class is a change of `own`
        if as_drawn:
            self.ahead[mine] -= size
        else:
            most = self.left.astype(np.float64)
            most[mine] += 0.5  # of two classes with as many rows, the one that it drew
            mine[:] = np.argsort(-most, kind="stable")[: len(mine)]
        if not self._enough(client, size):
            self._exchange(client, size)
        left = self.left[mine]
        fair = np.minimum(-(-left * size // (self.ahead[mine] + size)), left)
        take = _evenly(min(size, int(fair.sum())), fair)
        take += _evenly(size - int(take.sum()), left - take)
        self.counts[client, : len(mine)] = take
        self.left[mine] -= take

    def _enough(self, client: int, size: int) -> bool:
        """Whether the client's classes have its number of rows, and each of them at least one."""
        left = self.left[self.own[client, :size]]
        return bool(left.all() and left.sum() >= size)

    def _exchange(self, client: int, size: int) -> None:
        """Make room in a client's classes, or give it others, until there is enough."""
        self.links.learn(self.own[:client], self.counts[:client])
        stuck = self._make_room(client, size, 0)
        mine = self.own[client, :size]
        tried = mine.tolist()
        later = self.ahead / self.own.shape[1]
        while not self._enough(client, size):
            worst = int(np.argmin(self.left[mine]))
            least = int(self.left[mine[worst]])
            better = self.left > least
            better[tried] = False
            if not better.any():
                break
            mine[worst] = np.argmax(np.where(better, self.left - later, -np.inf))
            tried.append(int(mine[worst]))
            stuck = self._make_room(client, size, 0 if least else stuck)
        found = int(self.left[mine].sum())
        if found < size:
            raise DataError(
                f"client {client} needs {size} examples of {self.own.shape[1]} of the "
                f"{len(self.left)} classes, but only {found} are left; lower points or "
                "clients.count, or set overlap = true"
            )

    def _make_room(self, client: int, size: int, stuck: int) -> int:
        """Let earlier clients exchange rows, so that there are more of this client's classes.

        Args:
            client: The client.
            size: How many rows it asks for.
            stuck: Classes (as bits) of which it is known that no row can be freed.

        Returns:
            The same, for the next time; only rows to spare may have become fewer until then.
        """
        mine = self.own[client, :size]
        left = self.left[mine]
        for c in mine[left == 0].tolist():
            if stuck >> c & 1 or not self.links.lead_on([c]):
                continue
            spare = self.left.copy()
            spare[mine] = np.maximum(left - 1, 0)
            if self._free([c], spare, 1):
                stuck, left = 0, self.left[mine]
            else:
                stuck |= self.links.reached(c)
        missing = size - int(left.sum())
        if missing > 0:
            spare = self.left.copy()
            spare[mine] = 0
            if self._free(mine.tolist(), spare, missing):
                stuck = 0
        return stuck

    def _free(self, wanted: list[int], spare: Ints, amount: int) -> int:
        """Free rows of one of the wanted classes, at the cost of classes with rows to spare.

        Returns:
            How many.
        """
        freed = 0
        while freed < amount:
            path = self._path(wanted, spare)
            if not path:
                break
            end = self.own[path[-1][0], path[-1][2]]
            moved = min(amount - freed, spare[end], *(self.counts[k, c] - 1 for k, c, _ in path))
            for k, c, d in path:
                self.counts[k, c] -= moved
                self.counts[k, d] += moved
                self.left[self.own[k, c]] += moved
                self.left[self.own[k, d]] -= moved
                self.links.add(int(self.own[k, d]), self.own[k, self.counts[k] > 0].tolist())
            spare[end] -= moved
            freed += int(moved)
        return freed

    def _path(self, wanted: list[int], spare: Ints) -> list[Exchange]:
        """The shortest path of exchanges from a wanted class to one with rows to spare, or none."""
        open_ = _bits(np.flatnonzero(spare).tolist())
        while classes := self.links.path(wanted, open_):
            path = []
            for c, d in pairwise(classes):
                exchange = self.links.exchange(c, d, self.counts)
                if exchange is None:
                    break
                path.append(exchange)
            else:
                return path
        return []


class _Links:
    """Which classes clients can exchange: who has rows of one to give, and rows of the other.

    Somebody links class c to d if it has two rows or more of c (everybody keeps its classes), and
    any of d. Links that are gone, since rows were given, are forgotten only when they are looked
    up. That does not change the paths that are found: of all shortest paths the first by the order
    of the classes is taken, and it stays the first among fewer, unless one of its links is gone.

    Args:
        classes: How many there are.
    """

    def __init__(self, classes: int) -> None:
        self._known = 0
        self._to = [0] * classes  # bit d of number c: from class c to d
        self._holders = [array("q") for _ in range(classes)]  # their places in (K, W), ascending
        self._width = 0

    def learn(self, own: Places, counts: Ints) -> None:
        """Look at clients that have taken since the last time."""
        clients, self._width = own.shape
        if self._width < 2:
            return
        for client in range(self._known, clients):
            has = np.flatnonzero(counts[client])
            classes = own[client, has].tolist()
            for place, c in zip((client * self._width + has).tolist(), classes, strict=True):
                self._holders[c].append(place)
            bits = _bits(classes)
            for c in own[client, counts[client] > 1].tolist():
                self._to[c] |= bits
        self._known = clients

    def add(self, c: int, others: list[int]) -> None:
        """Somebody who has these classes has rows of class c to give."""
        self._to[c] |= _bits(others)

    def path(self, wanted: list[int], ends: int) -> list[int]:
        """The classes from a wanted one to the first of `ends` (bits), breadth first; or none."""
        came = dict.fromkeys(wanted, -1)
        seen = _bits(wanted)
        for c in (queue := list(came)):
            new = self._to[c] & ~seen
            if hit := new & ends:
                found = [_lowest(hit), c]
                while (before := came[found[-1]]) >= 0:
                    found.append(before)
                return found[::-1]
            seen |= new
            while new:
                d = _lowest(new)
                came[d] = c
                queue.append(d)
                new &= new - 1
        return []

    def lead_on(self, wanted: list[int]) -> bool:
        """Whether there is any link from these classes."""
        return any(self._to[c] for c in wanted)

    def reached(self, c: int) -> int:
        """All classes (as bits) to which paths lead from class c, and c."""
        seen = todo = 1 << c
        while todo:
            new = self._to[_lowest(todo)] & ~seen
            seen |= new
            todo = todo & (todo - 1) | new
        return seen

    def exchange(self, c: int, d: int, counts: Ints) -> Exchange | None:
        """The client that has most of class c to give for rows of d; None if the link is gone."""
        gives, takes = (np.array(self._holders[one]) for one in (c, d))
        rows = counts.reshape(-1)[gives]
        gives, rows = gives[rows > 1], rows[rows > 1]
        who, others = gives // self._width, takes // self._width
        at = np.minimum(np.searchsorted(others, who), len(others) - 1)
        both = np.flatnonzero(others[at] == who)
        if not len(both):
            self._to[c] &= ~(1 << d)
            return None
        best = both[np.argmax(rows[both])]
        give, take = int(gives[best]), int(takes[at[best]])
        return give // self._width, give % self._width, take % self._width


def _bits(classes: Iterable[int]) -> int:
    """Classes as the bits of a number."""
    found = 0
    for c in classes:
        found |= 1 << c
    return found


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _evenly(size: int, room: Ints) -> Ints:
    """`size` as a sum with one term per class: as even as the room in each allows."""
    take = np.zeros_like(room)
    while size > take.sum():
        open_ = np.flatnonzero(take < room)
        missing = size - int(take.sum())
        step = max(1, missing // len(open_))
        for c in open_[:missing].tolist():
            take[c] += min(step, int(room[c] - take[c]))
    return take
