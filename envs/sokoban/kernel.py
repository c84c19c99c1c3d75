"""The kernels of Sokoban: best-first search over pushes, and what judges a layout of boxes.

A state is a layout of boxes and a player who has just pushed. Layouts are judged once, however many states share them.
The queue is one stack for each priority, so that ties go to the state that was found last; nothing depends on hashing
or on the machine. All storage comes from the caller, who gives more and calls again where it is full.

Kernels that call each other stay in this one file: numba keeps compiled code until the file of the *caller* changes.
"""

from typing import Any, NamedTuple

from turngym.envs.jit import jit

FAR = 1_000_000
"""More than any distance: no way."""

FULL, FOUND, EXHAUSTED, LIMIT = range(4)
"""How `advance` ends."""

LAYOUTS, STATES, ENTRIES, LOWEST, EXPANSIONS, GOAL = range(6)
"""Counters by their place in a vector: used storage, the lowest priority, expanded states, the solved state."""


class Maze(NamedTuple):
    """The fixed part of a level in the form that kernels take: numbers and vectors.

    Attributes:
        size: Number of cells.
        boxes: Number of boxes, which is that of goals.
        steps: `steps[4 * cell + direction]` is the next cell; `size` stands for a wall.
        distances: `distances[goal * (size + 1) + cell]` is the least number of pushes that take a lone box there.
        alive: 1 for cells from which a lone box can be pushed to a goal.
        goals: 1 for goals.
        keys: Random numbers whose exclusive or stands for a set: one for a box on each cell, two for the player.
        farthest: The largest bound that `bounds.assign` can return for a solvable layout.
    """

    size: int
    boxes: int
    steps: Any
    distances: Any
    alive: Any
    goals: Any
    keys: Any
    farthest: int


class Layouts(NamedTuple):
    """Sets of boxes: cells, assignment to goals (see `assign`), hashes, and pushes left at least (`FAR`: dead)."""

    boxes: Any
    plans: Any
    hashes: Any
    bounds: Any
    slots: Any


class States(NamedTuple):
    """Layout, player, cost so far, state before, the push that led here (`4 * cell + direction`), whether expanded."""

    layouts: Any
    players: Any
    costs: Any
    parents: Any
    pushes: Any
    closed: Any
    slots: Any


class Queue(NamedTuple):
    """Stacks by priority: the top entry of each (-1: empty); of each entry its state and the entry below."""

    tops: Any
    states: Any
    below: Any


class Room(NamedTuple):
    """Scratch space. `walk` is -1 for cells and `FAR` for the wall between two calls, `fixed` 0 and 1."""

    walk: Any
    front: Any
    fixed: Any
    paths: Any


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
def find_state(maze: Maze, layouts: Layouts, states: States, counters: Any, layout: int, player: int) -> int:
    """The number of a state, which is added, with cost `FAR`, where it is new."""
    slots = states.slots
    mask = len(slots) - 1
    slot = (layouts.hashes[layout] ^ maze.keys[maze.size + player]) & mask
    while slots[slot]:
        state: int = slots[slot] - 1
        if states.layouts[state] == layout and states.players[state] == player:
            return state
        slot = (slot + 1) & mask
    added: int = counters[STATES]
    counters[STATES] = added + 1
    slots[slot] = added + 1
    states.layouts[added] = layout
    states.players[added] = player
    states.costs[added] = FAR
    states.closed[added] = 0
    return added


@jit
def find_layout(maze: Maze, layouts: Layouts, room: Room, counters: Any, layout: int, index: int, there: int) -> int:
    """The number of the layout after box `index` of another one is pushed; a new one is judged and added.

    `room.walk` must be `FAR` on the boxes of the layout before.
    """
    boxes, slots, count = layouts.boxes, layouts.slots, maze.boxes
    first = layout * count
    here = boxes[first + index]
    hashed = layouts.hashes[layout] ^ maze.keys[here] ^ maze.keys[there]
    mask = len(slots) - 1
    slot = hashed & mask
    while slots[slot]:
        known: int = slots[slot] - 1
        if layouts.hashes[known] == hashed:
            same = True
            for box in range(known * count, (known + 1) * count):
                cell = boxes[box]
                if cell != there and (cell == here or room.walk[cell] != FAR):
                    same = False
            if same:
                return known
        slot = (slot + 1) & mask
    new: int = counters[LAYOUTS]
    counters[LAYOUTS] = new + 1
    slots[slot] = new + 1
    layouts.hashes[new] = hashed
    for box in range(count):
        boxes[new * count + box] = boxes[first + box]
    boxes[new * count + index] = there
    layouts.bounds[new] = FAR
    if not stuck(maze, boxes, new * count, there, room.fixed):
        width = 3 * (count + 1)
        for place in range(width):
            layouts.plans[new * width + place] = layouts.plans[layout * width + place]
        layouts.bounds[new] = reassign(maze, layouts, new, index, room.paths)
    return new


@jit
def assign(maze: Maze, layouts: Layouts, layout: int, paths: Any) -> int:
    """The least number of pushes that take every box to a goal of its own if none is in another's way; `FAR` if none.

    The Hungarian method. A layout's plan holds, for goals and boxes from 1, the box of each goal, the price of each
    goal, and the worth of each box, such that worth and price of a pair never exceed its distance, and meet it where
    the pair belongs together.
    """
    width = 3 * (maze.boxes + 1)
    for place in range(layout * width, (layout + 1) * width):
        layouts.plans[place] = 0
    for index in range(maze.boxes):
        reassign(maze, layouts, layout, index, paths)
    return total(maze, layouts, layout)


@jit
def reassign(maze: Maze, layouts: Layouts, layout: int, index: int, paths: Any) -> int:
    """As `assign`, from a plan that is right but for one box: one shortest augmenting path."""
    count, stride, plans = maze.boxes, maze.size + 1, layouts.plans
    owner = layout * 3 * (count + 1)
    price, worth = owner + count + 1, owner + 2 * (count + 1)
    back, slack, seen = 0, count + 1, 2 * (count + 1)
    for goal in range(count + 1):
        if plans[owner + goal] == index + 1:
            plans[owner + goal] = 0
        paths[slack + goal] = 2 * FAR
        paths[seen + goal] = 0
    plans[worth + index + 1] = 0
    plans[owner] = index + 1
    goal = 0
    while plans[owner + goal]:
        paths[seen + goal] = 1
        box = plans[owner + goal]
        cell = layouts.boxes[layout * count + box - 1]
        least, nearest, offset = 4 * FAR, 0, plans[worth + box]
        for other in range(1, count + 1):
            if not paths[seen + other]:
                length = maze.distances[(other - 1) * stride + cell] - offset - plans[price + other]
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
    return total(maze, layouts, layout)


@jit
def total(maze: Maze, layouts: Layouts, layout: int) -> int:
    """The length of a layout's plan, where every box has a goal."""
    count, length = maze.boxes, 0
    for goal in range(1, count + 1):
        box = layouts.plans[layout * 3 * (count + 1) + goal] - 1
        if box >= 0:
            length += maze.distances[(goal - 1) * (maze.size + 1) + layouts.boxes[layout * count + box]]
    return min(length, FAR)


@jit
def enqueue(queue: Queue, counters: Any, state: int, priority: int) -> None:
    """Put a state on the stack of its priority."""
    entry = counters[ENTRIES]
    counters[ENTRIES] = entry + 1
    queue.states[entry] = state
    queue.below[entry] = queue.tops[priority]
    queue.tops[priority] = entry
    if priority < counters[LOWEST]:
        counters[LOWEST] = priority


@jit
def seek(queue: Queue, counters: Any) -> bool:
    """Move `LOWEST` to the first stack that holds something; whether there is one."""
    priority, tops = counters[LOWEST], queue.tops
    while priority < len(tops) and tops[priority] < 0:
        priority += 1
    counters[LOWEST] = priority
    return bool(priority < len(tops))


@jit
def advance(
    maze: Maze,
    layouts: Layouts,
    states: States,
    queue: Queue,
    room: Room,
    counters: Any,
    walking: int,
    weight: int,
    limit: int,
) -> int:
    """Search until a solution is found, nothing is left, a limit is met or the storage is full.

    Args:
        maze: The level.
        layouts: Storage; holds the first layout.
        states: Storage; holds the first state.
        queue: Storage; holds the first state.
        room: Scratch space.
        counters: How much of the storage is used, the lowest priority, expansions so far, the solved state.
        walking: What a step of walking costs, 0 or 1; a push costs 1. With 0, states of one layout whose players can
            walk to each other are expanded once.
        weight: Times the bound, added to the cost, is the priority. Costs are least where it is 1.
        limit: Most expansions.

    Returns:
        `FOUND`, `EXHAUSTED`, `LIMIT` or `FULL`.
    """
    count, walk, front = maze.boxes, room.walk, room.front
    most, reach = 4 * count + 1, 1 + maze.size + weight * maze.farthest
    while seek(queue, counters):
        lowest = counters[LOWEST]
        if (
            counters[LAYOUTS] + most > len(layouts.hashes)
            or counters[STATES] + most > len(states.players)
            or counters[ENTRIES] + most > len(queue.states)
            or lowest + reach >= len(queue.tops)
        ):
            return FULL
        entry = queue.tops[lowest]
        state = queue.states[entry]
        layout = states.layouts[state]
        if layouts.bounds[layout] == 0:
            counters[GOAL] = state
            return FOUND
        if counters[EXPANSIONS] >= limit:
            return LIMIT
        queue.tops[lowest] = queue.below[entry]
        if states.closed[state]:
            continue
        states.closed[state] = 1
        for box in range(layout * count, (layout + 1) * count):
            walk[layouts.boxes[box]] = FAR
        reached = flood(maze.steps, states.players[state], walk, front)
        if walking or is_first_visit(maze, layouts, states, counters, layout, front, reached):
            counters[EXPANSIONS] += 1
            expand(maze, layouts, states, queue, room, counters, state, walking, weight)
        for index in range(reached):
            walk[front[index]] = -1
        for box in range(layout * count, (layout + 1) * count):
            walk[layouts.boxes[box]] = -1
    return EXHAUSTED


@jit
def is_first_visit(
    maze: Maze, layouts: Layouts, states: States, counters: Any, layout: int, front: Any, reached: int
) -> bool:
    """Whether no state was expanded in which the player walks on the same cells; a state of its own remembers it."""
    least = front[0]
    for index in range(1, reached):
        least = min(least, front[index])
    visit = find_state(maze, layouts, states, counters, layout, maze.size + least)
    first = states.costs[visit] == FAR
    states.costs[visit] = 0
    return bool(first)


@jit
def expand(
    maze: Maze,
    layouts: Layouts,
    states: States,
    queue: Queue,
    room: Room,
    counters: Any,
    state: int,
    walking: int,
    weight: int,
) -> None:
    """Make every push that does not end the hope of a solution; `room.walk` holds the walking distances."""
    count, steps, walk, alive = maze.boxes, maze.steps, room.walk, maze.alive
    layout, spent = states.layouts[state], states.costs[state]
    for index in range(count):
        box = layouts.boxes[layout * count + index]
        for direction in range(4):
            length = walk[steps[4 * box + (direction + 2) % 4]]
            there = steps[4 * box + direction]
            if 0 <= length < FAR and alive[there] and walk[there] != FAR:
                pushed = find_layout(maze, layouts, room, counters, layout, index, there)
                bound = layouts.bounds[pushed]
                if bound < FAR:
                    after = find_state(maze, layouts, states, counters, pushed, box)
                    cost = spent + 1 + walking * length
                    if cost < states.costs[after] and not states.closed[after]:
                        states.costs[after] = cost
                        states.parents[after] = state
                        states.pushes[after] = 4 * box + direction
                        enqueue(queue, counters, after, cost + weight * bound)


@jit
def rehash_layouts(layouts: Layouts, used: int) -> None:
    """Fill the empty slots of a larger table."""
    mask = len(layouts.slots) - 1
    for layout in range(used):
        slot = layouts.hashes[layout] & mask
        while layouts.slots[slot]:
            slot = (slot + 1) & mask
        layouts.slots[slot] = layout + 1


@jit
def rehash_states(maze: Maze, layouts: Layouts, states: States, used: int) -> None:
    """Fill the empty slots of a larger table."""
    mask = len(states.slots) - 1
    for state in range(used):
        slot = (layouts.hashes[states.layouts[state]] ^ maze.keys[maze.size + states.players[state]]) & mask
        while states.slots[slot]:
            slot = (slot + 1) & mask
        states.slots[slot] = state + 1


@jit
def stuck(maze: Maze, boxes: Any, first: int, moved: int, fixed: Any) -> bool:
    """Whether a box that was just pushed to `moved` can never be pushed again, nor some others, and not all on goals.

    A box may move along an axis unless a wall or a fixed box stands on either side, or both sides are dead. All boxes
    are taken as fixed at first, and let go until nothing changes; those that are left hold each other.

    `fixed` is 1 for the wall and 0 for cells, and so again afterwards.
    """
    steps, alive, last = maze.steps, maze.alive, first + maze.boxes
    for index in range(first, last):
        fixed[boxes[index]] = 1
    changed = True
    while changed and fixed[moved]:
        changed = False
        for index in range(first, last):
            box = boxes[index]
            if fixed[box]:
                for axis in range(4 * box, 4 * box + 2):
                    here, there = steps[axis], steps[axis + 2]
                    if not (fixed[here] or fixed[there]) and (alive[here] or alive[there]):
                        fixed[box] = 0
                        changed = True
    dead = False
    for index in range(first, last):
        if fixed[moved] and fixed[boxes[index]] and not maze.goals[boxes[index]]:
            dead = True
    for index in range(first, last):
        fixed[boxes[index]] = 0
    return dead
