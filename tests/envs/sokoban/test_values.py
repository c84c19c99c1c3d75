"""Moves and their rewards by hand, and best returns against everything that can be played."""

import itertools
from functools import cache

import numpy as np
import pytest

from turngym.envs import grid
from turngym.envs.sokoban import board
from turngym.envs.sokoban.board import Level, Position
from turngym.envs.sokoban.formats import parse_dialect
from turngym.envs.sokoban.game import Game
from turngym.envs.sokoban.play import Reward, earned, numbered, play
from turngym.envs.sokoban.ragen_levels import ragen_level
from turngym.envs.sokoban.thoughts import thought
from turngym.envs.sokoban.values import Budget, best_return, outlooks

PUSH = parse_dialect("######\n#PXO_#\n######")
TWO = parse_dialect("#######\n#P__O_#\n#_X_X_#\n#___O_#\n#######")
CORNERED = parse_dialect("#####\n#XP_#\n#__O#\n#####")


WALL, DONE = "The wall holds you back.", "You pushed every box onto a goal."


def codes(letters: str) -> list[int]:
    return ["LDRU".index(letter) for letter in letters]


# Moves -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "letters", "made", "told", "gained", "solved"),
    [
        (PUSH, "R", 1, DONE, 1, True),
        (PUSH, "RRR", 1, DONE, 1, True),
        (PUSH, "L", 1, WALL, 0, False),
        (
            PUSH,
            "LUR",
            3,
            "The wall holds you back. The wall holds you back. You pushed every box onto a goal.",
            1,
            True,
        ),
        (CORNERED, "L", 1, "The box could not move.", 0, False),
        (CORNERED, "RL", 2, "", 0, False),
        (TWO, "RRRD", 4, "", 1, False),  # the box on the right goes down onto its goal
        (TWO, "RRRDD", 5, "The box could not move.", 1, False),
        (TWO, "", 0, "", 0, False),
    ],
)
def test_moves(level: Level, letters: str, made: int, told: str, gained: int, solved: bool) -> None:
    _, event = play(level, level.start, codes(letters), "gym_sokoban")
    assert (event.moves, event.feedback, event.terminated, event.success) == (made, told, solved, solved)
    assert event.reward == pytest.approx(gained + 10 * solved - 0.1 * made)


def test_a_box_that_leaves_its_goal_is_a_loss() -> None:
    level = parse_dialect("#######\n#P√__X#\n#____O#\n#######")
    assert play(level, level.start, codes("R"), "gym_sokoban")[1].reward == -1.1
    assert play(level, level.start, codes("R"), "sparse")[1].reward == 0


def test_a_move_that_moves_nothing_gives_the_very_same_position() -> None:
    assert play(PUSH, PUSH.start, codes("LUD"), "sparse")[0] is PUSH.start


@pytest.mark.parametrize(
    ("reward", "moves", "gained", "solved", "expected"),
    [
        ("gym_sokoban", 1, 0, False, -0.1),
        ("gym_sokoban", 3, 0, False, -0.3),
        ("gym_sokoban", 1, 1, False, 0.9),
        ("gym_sokoban", 1, -1, False, -1.1),
        ("gym_sokoban", 1, 1, True, 10.9),  # gym-sokoban's last push
        ("sparse", 1, 1, True, 1.0),
        ("sparse", 4, 1, False, 0.0),
    ],
)
def test_what_moves_earn(reward: Reward, moves: int, gained: int, solved: bool, expected: float) -> None:
    assert earned(reward, moves, gained, solved) == expected


def test_numbers() -> None:
    level = parse_dialect("#####\n#S√X#\n#___#\n#####")
    assert numbered(level, level.start).tolist() == [[1] * 5, [1, 6, 4, 3, 1], [1, 0, 0, 0, 1], [1] * 5]
    assert numbered(PUSH, PUSH.start)[1].tolist() == [1, 5, 3, 2, 0, 1]


# Thoughts ----------------------------------------------------------------------------------------------------------


def test_thoughts() -> None:
    level = parse_dialect("######\n#_P__#\n#_X__#\n#___O#\n######")
    plan = codes("DLDR")
    start = "I am at 1 2, box at 2 2, goal at 3 4, plan Down Left Down Right, next"
    assert thought(level, level.start, plan, 1) == f"{start} 2 2, box at 3 2"
    assert thought(level, level.start, plan, 2) == f"{start} 2 1, box at 3 2"
    assert thought(level, level.start, plan, 9) == f"{start} 3 2, box at 3 3"
    text = thought(TWO, TWO.start, codes("R" * 20), 1)
    assert text == f"I am at 1 1, box at 2 2, 2 4, goal at 1 4, 3 4, plan {' '.join(['Right'] * 12)}, next 1 2"


# Outlooks ----------------------------------------------------------------------------------------------------------


def test_a_solution_answers_for_its_whole_way() -> None:
    known, position = outlooks(TWO), TWO.start
    moves = known[position].moves
    for made, direction in enumerate(moves, 1):
        position = board.move(TWO, position, direction)
        assert known._known[position] == ("optimal", moves[made:]), "found without another search"
    assert board.is_solved(TWO, position)


def test_what_cannot_be_solved() -> None:
    assert outlooks(CORNERED)[CORNERED.start] == ("unsolvable", ())


# Best returns ------------------------------------------------------------------------------------------------------


class BruteForce:
    """The best return by recursion over turns, sequences and a turn without a move; shares nothing but the rules."""

    def __init__(self, level: Level, reward: Reward, per_turn: int, invalid_penalty: float) -> None:
        self.level, self.reward, self.invalid_penalty = level, reward, invalid_penalty
        lengths = range(1, per_turn + 1)
        self.sequences = [one for length in lengths for one in itertools.product(range(4), repeat=length)]
        self.best = cache(self._best)

    def _best(self, position: Position, turns: int, moves: int) -> float:
        if turns == 0 or moves == 0:
            return 0.0
        returns = [self.invalid_penalty + self.best(position, turns - 1, moves)]
        for sequence in self.sequences:
            if len(sequence) > moves:
                continue
            here, total, on = position, 0.0, board.boxes_on_goals(self.level, position)
            made = 0
            while made < len(sequence) and not board.is_solved(self.level, here):
                here, made = board.move(self.level, here, sequence[made]), made + 1
            solved = board.is_solved(self.level, here)
            if self.reward == "sparse":
                total = 1.0 * solved
            else:
                total = board.boxes_on_goals(self.level, here) - on - 0.1 * made + 10 * solved
            returns.append(total + (0.0 if solved else self.best(here, turns - 1, moves - made)))
        return max(returns)


SMALL = [
    PUSH,
    CORNERED,
    parse_dialect("#####\n#PX_#\n#_XO#\n#_O_#\n#####"),
    parse_dialect("######\n#PXO_#\n#_X_O#\n######"),
    parse_dialect("######\n#O_P_#\n#_X_X#\n#_O__#\n######"),  # one box is stuck for good, the other is worth a point
]


@pytest.mark.parametrize("level", SMALL, ids=range(len(SMALL)))
@pytest.mark.parametrize(("per_turn", "turns", "moves"), [(1, 6, 99), (1, 3, 99), (2, 4, 99), (2, 4, 3), (3, 2, 4)])
@pytest.mark.parametrize("invalid_penalty", [-0.1, 0.0, -1.0, -0.05])
@pytest.mark.parametrize("reward", ["gym_sokoban", "sparse"])
def test_best_returns_are_those_of_brute_force(
    level: Level, per_turn: int, turns: int, moves: int, invalid_penalty: float, reward: Reward
) -> None:
    game = Game(observation_format="grid", reward=reward, moves_per_turn=per_turn, invalid_penalty=invalid_penalty)
    plain = BruteForce(level, reward, per_turn, invalid_penalty)
    position = level.start
    for direction in (None, *codes("DRUL")):
        position = position if direction is None else board.move(level, position, direction)
        if not board.is_solved(level, position):
            expected = plain.best(position, turns, moves)
            assert game.best_return(level, position, turns, moves) == pytest.approx(expected, abs=1e-9)


def test_where_not_to_solve_it_might_earn_more_nothing_is_said() -> None:
    """Twenty moves a turn cost more than two turns of one move and no solution, were the way long enough."""
    solved = best_return(PUSH, PUSH.start, Budget(2, 40, -0.1), "gym_sokoban")
    assert solved == pytest.approx(10.9)
    corridor = parse_dialect("#" * 130 + "\n#P" + "_" * 125 + "XO#\n" + "#" * 130)
    assert best_return(corridor, corridor.start, Budget(7, 140, -0.1), "gym_sokoban") is None
    assert best_return(corridor, corridor.start, Budget(40, 140, -0.1), "gym_sokoban") == pytest.approx(11 - 12.6)
    assert best_return(corridor, corridor.start, Budget(7, 140, -0.1), "sparse") == 1.0


def test_the_best_moves_earn_the_best_return() -> None:
    rng = np.random.default_rng(3)
    game = Game(observation_format="grid", reward="gym_sokoban", moves_per_turn=2, invalid_penalty=-0.1)
    for _ in range(20):
        level = ragen_level(rng, 6, 2)
        position, total, turns = level.start, 0.0, 40
        promised = game.best_return(level, position, turns)
        while not board.is_solved(level, position):
            moves = game.best_moves(level, position)
            assert 1 <= len(moves) <= 2
            position, event = play(level, position, moves, "gym_sokoban")
            total, turns = total + event.reward, turns - 1
            rest = 0.0 if event.terminated else game.best_return(level, position, turns)
            assert rest == pytest.approx(promised - total), "what is promised stays the same on the best way"
        assert total == pytest.approx(promised)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observation_format": "text"}, "observation_format must be one of grid, coordinates, .* got 'text'"),
        ({"reward": "dense"}, "reward must be one of gym_sokoban, sparse, got 'dense'"),
        ({"moves_per_turn": 0}, "moves_per_turn must be between 1 and 20, got 0"),
        ({"moves_per_turn": 21}, "moves_per_turn must be between 1 and 20, got 21"),
        ({"invalid_penalty": 0.1}, "invalid_penalty must be at most 0, got 0.1"),
    ],
    ids=str,
)
def test_bad_arguments(arguments: dict[str, object], message: str) -> None:
    usual = {"observation_format": "grid", "reward": "sparse", "moves_per_turn": 1, "invalid_penalty": -0.1}
    with pytest.raises(ValueError, match=message):
        Game(**{**usual, **arguments})  # type: ignore[arg-type]


def test_directions_are_the_grids() -> None:
    assert [name[0] for name in grid.DIRECTIONS] == list("LDRU")
