"""Sokoban by exhaustive search, to check solvers against: plain Python that shares nothing with turngym.

A state is the player's cell and the boxes as a set of bits. States are visited in the order of their cost; there is no
bound, no pruning and no symmetry.
"""


def fewest(xsb: str, counted: str, max_states: int) -> int | None:
    """The fewest moves or pushes that solve a level.

    Args:
        xsb: The level, closed by walls.
        counted: "moves" or "pushes".
        max_states: Give up after so many states.

    Returns:
        -1 where nothing solves it; None where it was given up.
    """
    width, walls, goals, boxes, player = read(xsb)
    walks_cost = counted == "moves"
    seen: set[tuple[int, int]] = set()
    cost, now, later = 0, [(player, boxes)], []
    while now:
        while now:
            state = now.pop()
            if state in seen:
                continue
            player, boxes = state
            if boxes == goals:
                return cost
            seen.add(state)
            if len(seen) > max_states:
                return None
            for step in (-1, 1, -width, width):
                ahead, beyond = 1 << player + step, 1 << player + 2 * step if player + 2 * step >= 0 else walls
                if ahead & boxes:
                    if not beyond & (walls | boxes):
                        later.append((player + step, boxes ^ ahead ^ beyond))
                elif not ahead & walls:
                    (later if walks_cost else now).append((player + step, boxes))
        cost, now, later = cost + 1, later, []
    return -1


def read(xsb: str) -> tuple[int, int, int, int, int]:
    """The width of a level, its walls, goals and boxes as sets of bits, and the player's cell."""
    rows = xsb.split("\n")
    width = max(map(len, rows))
    cells = "".join(row.ljust(width) for row in rows)
    walls, goals, boxes = (
        sum(1 << cell for cell, symbol in enumerate(cells) if symbol in symbols) for symbols in ("#", ".*+", "$*")
    )
    return width, walls, goals, boxes, next(cell for cell, symbol in enumerate(cells) if symbol in "@+")
