"""The kernels of Sokoban: best-first search over pushes or pulls, and what judges a layout of boxes.

A state is a layout of boxes and a player who has just pushed. Layouts are judged once, however many states share them.
The queue is one stack for each priority, so that ties go to the state that was found last; nothing depends on hashing
or on the machine. All storage comes from the caller, who gives more and calls again where it is full. It is plain
vectors of records: a record goes by the place where it begins, which is never 0, and a field adds to that.

Kernels that call each other stay in this one file: numba keeps compiled code until the file of the *caller* changes.
"""

from typing import Any, NamedTuple

from turngym.envs.jit import jit

FAR = 1_000_000
"""More than any distance: no way."""

FULL, FOUND, EXHAUSTED, LIMIT = range(4)
"""How `advance` ends."""

USED_LAYOUTS, USED_STATES, USED_ENTRIES, LOWEST, EXPANSIONS, SOLVED, HOME = range(7)
"""Counters: where the next record goes, the lowest priority, expanded states, the last state of a solution; and the
cell that the player must be able to walk to in it when playing backwards (the wall: there is no such state)."""

BOUND, HASH, CELLS = range(3)
"""A layout: pushes left at least (`FAR`: dead), exclusive or of keys, cells of the boxes; then its plan (`assign`)."""

LAYOUT, PLAYER, COST, PARENT, PUSH, CLOSED, STATE_WIDTH = range(7)
"""A state: its layout, player, cost so far, state before, push that led here (`4 * cell + direction`), if expanded."""

STATE, BELOW, ENTRY_WIDTH = range(3)
"""An entry of the queue: its state, and the entry below it on the same stack."""

ALIVE, GOAL = 1, 2
"""Marks of cells: a lone box can be pushed from there to a goal; it is a goal."""


class Maze(NamedTuple):
    """The fixed part of a level in the form that kernels take: numbers and vectors.

    Attributes:
        size: Number of cells.
        boxes: Number of boxes, which is that of goals.
        farthest: No layout that can be solved needs more pushes by `assign`.
        steps: `steps[4 * cell + direction]` is the next cell; `size` stands for a wall.
        distances: `distances[goal * (size + 1) + cell]` is the least number of pushes that take a lone box there.
        marks: The marks of each cell.
        keys: Random numbers whose exclusive or stands for a set: one for a box on each cell, two for the player.
    """

    size: int
    boxes: int
    farthest: int
    steps: Any
    distances: Any
    marks: Any
    keys: Any


class Search(NamedTuple):
    """A maze and all that a search knows.

    Attributes:
        layouts: Records of layouts.
        layout_slots: Hash table of layouts; 0 is empty.
        states: Records of states.
        state_slots: Hash table of states; 0 is empty.
        tops: The top entry of the stack of each priority; 0 where it is empty.
        entries: Records of entries.
        walk: Scratch space; -1 for cells and `FAR` for the wall between two calls.
        front: Scratch space for cells.
        areas: Scratch space for `find_corral`.
        pen: Scratch space for `find_corral`.
        fixed: Scratch space; 0 for cells and 1 for the wall between two calls.
        paths: Scratch space for `reassign`.
        counters: Named above.
    """

    size: int
    boxes: int
    farthest: int
    steps: Any
    distances: Any
    marks: Any
    keys: Any
    layouts: Any
    layout_slots: Any
    states: Any
    state_slots: Any
    tops: Any
    entries: Any
    walk: Any
    front: Any
    areas: Any
    pen: Any
    fixed: Any
    paths: Any
    counters: Any


class Rules(NamedTuple):
    """What a search looks for.

    Attributes:
        pulling: 1 to play backwards: boxes are pulled.
        walking: What a step of walking costs, 0 or 1; a push costs 1. With 0, states of one layout whose players can
            walk to each other are expanded once.
        thrift: Times the cost of a state is one part of its priority.
        weight: Times the bound of its layout is the other. With 1 and 1, the solution that is found costs least.
    """

    pulling: int
    walking: int
    thrift: int
    weight: int


@jit
def advance(search: Search, rules: Rules, limit: int) -> int:
    """Search until a solution is found, nothing is left, `limit` states are expanded, or the storage is full.

    Returns:
        `FOUND`, `EXHAUSTED`, `LIMIT` or `FULL`.
    """
    layouts, states, counters, walk = search.layouts, search.states, search.counters, search.walk
    while seek(search.tops, counters):
        if is_full(search, rules):
            return FULL
        if counters[EXPANSIONS] >= limit:
            return LIMIT
        entry = search.tops[counters[LOWEST]]
        search.tops[counters[LOWEST]] = search.entries[entry + BELOW]
        state = search.entries[entry + STATE]
        if states[state + CLOSED]:
            continue
        layout = states[state + LAYOUT]
        put_boxes(search, layout, FAR)
        reached = flood(search.steps, states[state + PLAYER], walk, search.front)
        if layouts[layout + BOUND] == 0 and (not rules.pulling or 0 <= walk[counters[HOME]] < FAR):
            counters[SOLVED] = state
            return FOUND
        if rules.walking or is_first_visit(search, layout, reached):
            states[state + CLOSED] = 1
            counters[EXPANSIONS] += 1
            expand(search, rules, state)
        for index in range(reached):
            walk[search.front[index]] = -1
        put_boxes(search, layout, -1)
    return EXHAUSTED


@jit
def put_boxes(search: Search, layout: int, value: int) -> None:
    """Write a value into `walk` for every box."""
    for place in range(layout + CELLS, layout + CELLS + search.boxes):
        search.walk[search.layouts[place]] = value


@jit
def seek(tops: Any, counters: Any) -> bool:
    """Move `LOWEST` to the first stack that holds something; whether there is one."""
    priority = counters[LOWEST]
    while priority < len(tops) and not tops[priority]:
        priority += 1
    counters[LOWEST] = priority
    return bool(priority < len(tops))


@jit
def is_full(search: Search, rules: Rules) -> bool:
    """Whether an expansion may add more than the storage holds."""
    counters = search.counters
    most = 4 * search.boxes + 1
    highest = counters[LOWEST] + rules.thrift * (1 + search.size) + abs(rules.weight) * search.farthest
    return bool(
        counters[USED_LAYOUTS] + most * layout_width(search.boxes) > len(search.layouts)
        or counters[USED_STATES] + most * STATE_WIDTH > len(search.states)
        or counters[USED_ENTRIES] + most * ENTRY_WIDTH > len(search.entries)
        or highest >= len(search.tops)
    )


@jit
def layout_width(boxes: int) -> int:
    """The length of a layout's record."""
    return CELLS + boxes + 3 * (boxes + 1)


@jit
def flood(steps: Any, start: int, walk: Any, front: Any) -> int:
    """Write the walking distances from `start` into `walk`, and the cells in their order into `front`; return how many.

    `walk` must hold -1 for free cells and something larger for others.
    """
    walk[start] = 0
    front[0] = start
    count, head = 1, 0
    while head < count:
        here = front[head]
        head += 1
        length = walk[here] + 1
        for edge in range(4 * here, 4 * here + 4):
            there = steps[edge]
            if walk[there] < 0:
                walk[there] = length
                front[count] = there
                count += 1
    return count


@jit
def is_first_visit(search: Search, layout: int, reached: int) -> bool:
    """Whether no state was expanded in which the player walks on the same cells; a state of its own remembers it."""
    least = search.front[0]
    for index in range(1, reached):
        least = min(least, search.front[index])
    visit = find_state(search, layout, search.size + least)
    first = search.states[visit + COST] == FAR
    search.states[visit + COST] = 0
    return bool(first)


@jit
def find_corral(search: Search) -> int:
    """Number the areas that the player cannot reach, and return the one that must be seen to first; 0 if there is none.

    An area is cells and boxes, as far as they hang together. Where no push leads out of it or along its edge, nothing
    that happens elsewhere changes what can be done in it; and where one of its boxes is not on a goal, something must
    be done. So that may come first, at no cost in pushes, though perhaps in steps. (Known as PI-corrals.)
    """
    areas, walk = search.areas, search.walk
    found, number, fewest = 0, 0, 4 * FAR
    for cell in range(search.size):
        areas[cell] = 0
    for start in range(search.size):
        if walk[start] < 0 and not areas[start]:
            number += 1
            pushes = pushes_into(search, start, number)
            if 0 <= pushes < fewest:
                found, fewest = number, pushes
    return found


@jit
def pushes_into(search: Search, start: int, number: int) -> int:
    """Number an area, and count the pushes that can be made in it; -1 if it is not one that `find_corral` looks for."""
    steps, marks, areas, walk, front = search.steps, search.marks, search.areas, search.walk, search.pen
    areas[start] = number
    front[0] = start
    count, head, pushes, away, leads_out = 1, 0, 0, False, False
    while head < count:
        here = front[head]
        head += 1
        is_box = walk[here] == FAR
        away = away or (is_box and not marks[here] & GOAL)
        for direction in range(4):
            stand, there = steps[4 * here + (direction + 2) % 4], steps[4 * here + direction]
            if is_box and 0 <= walk[stand] < FAR and marks[there] & ALIVE:
                pushes += walk[there] < 0
                leads_out = leads_out or 0 <= walk[there] < FAR
            if there != search.size and not areas[there] and not 0 <= walk[there] < FAR:
                areas[there] = number
                front[count] = there
                count += 1
    return pushes if away and not leads_out else -1


@jit
def expand(search: Search, rules: Rules, state: int) -> None:
    """Make every push or pull that does not end the hope of a solution; `walk` holds the walking distances."""
    steps, walk, layouts = search.steps, search.walk, search.layouts
    layout = search.states[state + LAYOUT]
    corral = 0 if rules.pulling or rules.walking else find_corral(search)
    for place in range(layout + CELLS, layout + CELLS + search.boxes):
        box = layouts[place]
        if corral and search.areas[box] != corral:
            continue
        for direction in range(4):
            back = (direction + 2) % 4
            stand, there, player = steps[4 * box + back], steps[4 * box + direction], box
            if rules.pulling:
                there, player = stand, steps[4 * stand + back]
            blocked = walk[player if rules.pulling else there] == FAR or not search.marks[there] & ALIVE
            if 0 <= walk[stand] < FAR and not blocked:
                cost = search.states[state + COST] + 1 + rules.walking * walk[stand]
                after = find_layout(search, layout, place - layout, there)
                if layouts[after + BOUND] < FAR:
                    reach(search, rules, find_state(search, after, player), cost, state, 4 * box + direction)


@jit
def reach(search: Search, rules: Rules, state: int, cost: int, parent: int, push: int) -> None:
    """Put a state in the queue, unless it has cost less before."""
    states, entries, counters = search.states, search.entries, search.counters
    if cost < states[state + COST] and not states[state + CLOSED]:
        states[state + COST] = cost
        states[state + PARENT] = parent
        states[state + PUSH] = push
        priority = rules.thrift * cost + rules.weight * search.layouts[states[state + LAYOUT] + BOUND]
        if rules.weight < 0:
            priority -= rules.weight * search.farthest  # so that it is at least 0
        entry = counters[USED_ENTRIES]
        counters[USED_ENTRIES] = entry + ENTRY_WIDTH
        entries[entry + STATE] = state
        entries[entry + BELOW] = search.tops[priority]
        search.tops[priority] = entry
        counters[LOWEST] = min(counters[LOWEST], priority)


@jit
def find_state(search: Search, layout: int, player: int) -> int:
    """The state with this layout and player; it is added, with cost `FAR`, where it is new."""
    states, slots = search.states, search.state_slots
    mask = len(slots) - 1
    slot = (search.layouts[layout + HASH] ^ search.keys[search.size + player]) & mask
    while slots[slot]:
        state: int = slots[slot]
        if states[state + LAYOUT] == layout and states[state + PLAYER] == player:
            return state
        slot = (slot + 1) & mask
    new: int = search.counters[USED_STATES]
    search.counters[USED_STATES] = new + STATE_WIDTH
    slots[slot] = new
    states[new + LAYOUT] = layout
    states[new + PLAYER] = player
    states[new + COST] = FAR
    return new


@jit
def find_layout(search: Search, before: int, place: int, there: int) -> int:
    """The layout after the box at one place of another's record goes to `there`; judged and added where it is new.

    `walk` is `FAR` on the boxes of the layout before.
    """
    layouts, slots, keys, walk = search.layouts, search.layout_slots, search.keys, search.walk
    here = layouts[before + place]
    hashed = layouts[before + HASH] ^ keys[here] ^ keys[there]
    mask = len(slots) - 1
    slot = hashed & mask
    while slots[slot]:
        known: int = slots[slot]
        if layouts[known + HASH] == hashed:
            same = True
            for box in range(known + CELLS, known + CELLS + search.boxes):
                cell = layouts[box]
                if cell != there and (cell == here or walk[cell] != FAR):
                    same = False
            if same:
                return known
        slot = (slot + 1) & mask
    new: int = search.counters[USED_LAYOUTS]
    width = layout_width(search.boxes)
    search.counters[USED_LAYOUTS] = new + width
    slots[slot] = new
    for field in range(width):
        layouts[new + field] = layouts[before + field]
    layouts[new + HASH] = hashed
    layouts[new + place] = there
    judge(search, new, place - CELLS)
    return new


@jit
def judge(search: Search, layout: int, index: int) -> None:
    """Write the bound of a layout whose plan is right but for one box, and its plan where the bound is not `FAR`."""
    layouts = search.layouts
    if is_stuck(search, layout, layouts[layout + CELLS + index]):
        layouts[layout + BOUND] = FAR
    else:
        reassign(search, layout, index)


@jit
def is_stuck(search: Search, layout: int, moved: int) -> bool:
    """Whether a box that was just pushed to `moved` can never be pushed again, nor some others, and not all on goals.

    A box may move along an axis unless a wall or a fixed box stands on either side, or both sides are dead. All boxes
    are taken as fixed at first, and let go until nothing changes; those that are left hold each other.
    """
    layouts, fixed = search.layouts, search.fixed
    first, last = layout + CELLS, layout + CELLS + search.boxes
    for place in range(first, last):
        fixed[layouts[place]] = 1
    changed = True
    while changed and fixed[moved]:
        changed = False
        for place in range(first, last):
            if fixed[layouts[place]] and may_move(search.steps, search.marks, fixed, layouts[place]):
                fixed[layouts[place]] = 0
                changed = True
    dead = False
    for place in range(first, last):
        if fixed[moved] and fixed[layouts[place]] and not search.marks[layouts[place]] & GOAL:
            dead = True
    for place in range(first, last):
        fixed[layouts[place]] = 0
    return dead


@jit
def may_move(steps: Any, marks: Any, fixed: Any, box: int) -> bool:
    """Whether a box may be pushed along an axis, if those that are not fixed make way."""
    for axis in range(4 * box, 4 * box + 2):
        here, there = steps[axis], steps[axis + 2]
        if not (fixed[here] or fixed[there]) and (marks[here] | marks[there]) & ALIVE:
            return True
    return False


@jit
def assign(search: Search, layout: int) -> None:
    """Write the bound of a layout: the least number of pushes that take every box to a goal of its own.

    Boxes do not get in each other's way here. `FAR` where there is no way. The Hungarian method: a plan holds, for
    goals and boxes from 1, the box of each goal, the price of each goal, and the worth of each box, such that price
    and worth of a pair never exceed its distance, and meet it where the pair belongs together.
    """
    for field in range(layout + CELLS + search.boxes, layout + layout_width(search.boxes)):
        search.layouts[field] = 0
    for index in range(search.boxes):
        reassign(search, layout, index)


@jit
def reassign(search: Search, layout: int, index: int) -> None:
    """As `assign`, from a plan that is right but for one box: one shortest augmenting path."""
    plans, paths, count = search.layouts, search.paths, search.boxes
    owner = layout + CELLS + count
    price, worth = owner + count + 1, owner + 2 * (count + 1)
    back, slack, seen = 0, count + 1, 2 * (count + 1)
    for goal in range(count + 1):
        if plans[owner + goal] == index + 1:
            plans[owner + goal] = 0
        paths[slack + goal] = 2 * FAR
        paths[seen + goal] = 0
    plans[owner] = index + 1
    goal = 0
    while plans[owner + goal]:
        paths[seen + goal] = 1
        box = plans[owner + goal]
        cell, offset = plans[layout + CELLS + box - 1], plans[worth + box]
        least, nearest = 4 * FAR, 0
        for other in range(1, count + 1):
            if not paths[seen + other]:
                length = search.distances[(other - 1) * (search.size + 1) + cell] - offset - plans[price + other]
                if length < paths[slack + other]:
                    paths[slack + other] = length
                    paths[back + other] = goal
                if paths[slack + other] < least:
                    least, nearest = paths[slack + other], other
        for other in range(count + 1):
            if paths[seen + other]:
                plans[worth + plans[owner + other]] += least
                plans[price + other] -= least
            else:
                paths[slack + other] -= least
        goal = nearest
    while goal:
        plans[owner + goal] = plans[owner + paths[back + goal]]
        goal = paths[back + goal]
    plans[layout + BOUND] = planned(search, layout)


@jit
def planned(search: Search, layout: int) -> int:
    """The pushes of a layout's plan, over the boxes that have a goal; at most `FAR`."""
    plans, stride, length = search.layouts, search.size + 1, 0
    owner = layout + CELLS + search.boxes
    for goal in range(1, search.boxes + 1):
        box = plans[owner + goal]
        if box:
            length += search.distances[(goal - 1) * stride + plans[layout + CELLS + box - 1]]
    return min(length, FAR)


@jit
def rehash(search: Search) -> None:
    """Fill the empty slots of larger tables."""
    layouts, states = search.layouts, search.states
    mask, width = len(search.layout_slots) - 1, layout_width(search.boxes)
    for layout in range(width, search.counters[USED_LAYOUTS], width):
        slot = layouts[layout + HASH] & mask
        while search.layout_slots[slot]:
            slot = (slot + 1) & mask
        search.layout_slots[slot] = layout
    mask = len(search.state_slots) - 1
    for state in range(STATE_WIDTH, search.counters[USED_STATES], STATE_WIDTH):
        slot = (layouts[states[state + LAYOUT] + HASH] ^ search.keys[search.size + states[state + PLAYER]]) & mask
        while search.state_slots[slot]:
            slot = (slot + 1) & mask
        search.state_slots[slot] = state
