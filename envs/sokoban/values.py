"""What is to be had from a position: solutions, remembered along their way, and the best return in what is left."""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from turngym.envs.sokoban.board import Level, Position, boxes_on_goals, move
from turngym.envs.sokoban.play import Reward, earned
from turngym.envs.sokoban.solver import Status, solve

MAX_EXPANSIONS = 200_000
"""Of a solution with the fewest moves; where it is not found, any solution is looked for as long."""

_MAX_POSITIONS = 5_000


class Outlook(NamedTuple):
    """What is known of a position.

    Attributes:
        status: "optimal": `moves` are the fewest that solve it; "solved": they solve it; "unsolvable": proved to have
            no solution; "gave_up": neither was found.
        moves: Direction codes; empty where there is no solution, or nothing left to do.
    """

    status: Status
    moves: tuple[int, ...]


class Outlooks:
    """The positions of one level. A solution answers for every position on its way.

    Args:
        level: The level; play this very object, which also remembers what follows from its cells.
    """

    def __init__(self, level: Level) -> None:
        self.level = level
        self._known: dict[Position, Outlook] = {}

    def __getitem__(self, position: Position) -> Outlook:
        if position not in self._known:
            self._add(position)
        return self._known[position]

    def _add(self, position: Position) -> None:
        solution = solve(self.level, position, max_expansions=MAX_EXPANSIONS)
        if solution.status == "gave_up":
            solution = solve(self.level, position, metric="any", max_expansions=MAX_EXPANSIONS)
        self._known[position] = Outlook(solution.status, solution.moves)
        for made, direction in enumerate(solution.moves, 1):
            position = move(self.level, position, direction)
            self._known.setdefault(position, Outlook(solution.status, solution.moves[made:]))


@lru_cache(maxsize=1024)
def outlooks(level: Level) -> Outlooks:
    """What is known of a level; the same object for all environments that play it."""
    return Outlooks(level)


class Budget(NamedTuple):
    """What is left of an episode.

    Attributes:
        turns: Turns until it is cut short.
        moves: The most moves that can be made in them.
        idle: What a turn earns at best in which nothing is moved.
    """

    turns: int
    moves: int
    idle: float


def best_return(level: Level, position: Position, budget: Budget, reward: Reward) -> float | None:
    """The highest sum of rewards that can be had from a position that is not solved; None where it is not known.

    A box earns on its goal what it costs off it, so all solutions with equally many moves earn the same, and the
    shortest is best. Where there is none in time, everything within reach is searched for boxes on goals that are
    worth their moves.
    """
    outlook = outlooks(level)[position]
    in_time = 0 < len(outlook.moves) <= budget.moves
    if reward == "sparse":
        return float(in_time) if in_time or outlook.status in ("optimal", "unsolvable") else None
    if outlook.status in ("solved", "gave_up"):
        return None
    missing = len(level.goals) - boxes_on_goals(level, position)
    if not in_time:
        return _best_unsolved(level, position, budget, missing - 1)
    solved = earned(reward, len(outlook.moves), missing, True)
    return solved if solved >= missing - 1 + _price(0, budget) else None  # else not to solve it might earn more


def _best_unsolved(level: Level, position: Position, budget: Budget, missing: int) -> float | None:
    """The best return without a solution, where at most `missing` more boxes can be on goals; breadth first."""
    met, front, boxes = {position}, [position], boxes_on_goals(level, position)
    best = float("-inf")
    for made in range(budget.moves + 1):
        gained = max(boxes_on_goals(level, each) for each in front) - boxes
        best = max(best, gained + _price(made, budget))
        front = list(dict.fromkeys(after for each in front for after in _after(level, each) if after not in met))
        met.update(front)
        if not front or missing + _price(made + 1, budget) <= best:
            return best
        if len(met) > _MAX_POSITIONS:
            return None
    return best


def _after(level: Level, position: Position) -> Iterator[Position]:
    return (move(level, position, direction) for direction in range(4))


def _price(moves: int, budget: Budget) -> float:
    """What it costs to make so many moves and then to wait for the end, or to use up all moves at once."""
    waiting = budget.idle * max(0, budget.turns - moves)
    return max(waiting - moves / 10, -budget.moves / 10)
