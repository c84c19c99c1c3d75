"""The exhaustive search of `sokoban_brute_force.py`, compiled by numba, for levels of millions of positions.

It shares nothing with turngym either, and has no bound, no pruning and no symmetry. A position is one whole number: the
player's cell, then the boxes' cells, sorted, a few bits each.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from sokoban_brute_force import read

_MOST_BITS = 62
_GAVE_UP = -2


class _Search(NamedTuple):
    """What is known of a level, and met so far; a cell's next cell is -1 where a wall is."""

    steps: Any
    is_goal: Any
    bits: int
    queue: Any
    slots: Any
    boxes: Any


def fewest_compiled(xsb: str, counted: str, max_states: int) -> int | None:
    """As `sokoban_brute_force.fewest`.

    Returns:
        -1 where nothing solves it; None where it was given up, or has so many boxes on so many cells that they do not
        fit into one number.
    """
    width, walls, goals, boxes, player = read(xsb)
    beside = (-1, 1, -width, width)
    floor = _reached(player, beside, walls)
    number = {cell: place for place, cell in enumerate(floor)}
    steps = np.array([[number.get(cell + step, -1) for step in beside] for cell in floor])
    is_goal = np.array([goals >> cell & 1 for cell in floor])
    begin = np.array([number[cell] for cell in floor if boxes >> cell & 1])
    bits = len(floor).bit_length()
    if bits * (len(begin) + 1) > _MOST_BITS:
        return None
    queue, slots = np.empty(max_states + 4, np.int64), np.zeros(1 << (2 * max_states).bit_length(), np.int64)
    cost = _search(_Search(steps, is_goal, bits, queue, slots, begin), number[player], counted == "moves")
    return None if cost == _GAVE_UP else int(cost)


def _reached(start: int, beside: tuple[int, ...], walls: int) -> list[int]:
    """The cells that the player could walk to if there were no boxes, sorted."""
    found, front = {start}, [start]
    while front:
        here = front.pop()
        new = {here + step for step in beside if not walls >> here + step & 1} - found
        found |= new
        front += new
    return sorted(found)


@njit(cache=True)
def _search(search: _Search, player: int, walks_cost: bool) -> int:
    """The positions of one cost are those from `first` to `last` in the queue."""
    most = len(search.queue) - 4
    count, first, cost = _add(search, 0, _packed(search, player)), 0, 0
    while first < count:
        here = first
        while here < count <= most and not walks_cost:
            count = _follow(search, here, count, True, False)
            here += 1
        last = count
        for here in range(first, last):
            if _is_solved(search, here):
                return cost
        here = first
        while here < last and count <= most:
            count = _follow(search, here, count, walks_cost, True)
            here += 1
        if count > most:
            return _GAVE_UP
        first, cost = last, cost + 1
    return -1


@njit(cache=True)
def _follow(search: _Search, here: int, count: int, walks: bool, pushes: bool) -> int:
    """Queue what follows by one move from the position at `here` and is new; how many are queued then."""
    boxes, position = search.boxes, search.queue[here]
    player = _unpack(search, position)
    for direction in range(4):
        ahead = search.steps[player, direction]
        pushed = _box_at(boxes, ahead)
        if ahead >= 0 and pushed < 0 and walks:
            place = search.bits * len(boxes)
            count = _add(search, count, position + ((ahead - player) << place))
        elif pushed >= 0 and pushes:
            beyond = search.steps[ahead, direction]
            if beyond >= 0 and _box_at(boxes, beyond) < 0:
                _sort(boxes, pushed, beyond)
                count = _add(search, count, _packed(search, ahead))
                _unpack(search, position)
    return count


@njit(cache=True)
def _is_solved(search: _Search, here: int) -> bool:
    _unpack(search, search.queue[here])
    home = 0
    for box in search.boxes:
        home += search.is_goal[box]
    return home == len(search.boxes)


@njit(cache=True)
def _box_at(boxes: Any, cell: int) -> int:
    for box in range(len(boxes)):
        if boxes[box] == cell:
            return box
    return -1


@njit(cache=True)
def _sort(boxes: Any, moved: int, cell: int) -> None:
    """Give one of the sorted boxes another cell."""
    while moved > 0 and boxes[moved - 1] > cell:
        boxes[moved] = boxes[moved - 1]
        moved -= 1
    while moved < len(boxes) - 1 and boxes[moved + 1] < cell:
        boxes[moved] = boxes[moved + 1]
        moved += 1
    boxes[moved] = cell


@njit(cache=True)
def _packed(search: _Search, player: int) -> int:
    position = player
    for box in search.boxes:
        position = position << search.bits | box
    return position


@njit(cache=True)
def _unpack(search: _Search, position: int) -> int:
    """Write the boxes of a position into `boxes`, and return its player."""
    mask = (1 << search.bits) - 1
    for box in range(len(search.boxes) - 1, -1, -1):
        search.boxes[box] = position & mask
        position >>= search.bits
    return position


@njit(cache=True)
def _add(search: _Search, count: int, position: int) -> int:
    """Queue a position that is new; how many are queued then."""
    slots, mask = search.slots, len(search.slots) - 1
    slot = (position * 0x9E3779B97F4A7C1 >> 20) & mask
    while slots[slot]:
        if slots[slot] == position + 1:
            return count
        slot = (slot + 1) & mask
    slots[slot] = position + 1
    search.queue[count] = position
    return count + 1
