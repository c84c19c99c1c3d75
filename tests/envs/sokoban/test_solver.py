"""The solvers: hand-worked levels, exhaustive search, proofs of no solution, limits, the same without numba."""

import importlib
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from turngym.envs.errors import LevelError
from turngym.envs.jit import COMPILED
from turngym.envs.sokoban import drive, kernel
from turngym.envs.sokoban.board import Level, Position, is_push, is_solved, move
from turngym.envs.sokoban.formats import parse_level, to_lurd, to_xsb
from turngym.envs.sokoban.maze import numbers
from turngym.envs.sokoban.packs import load_pack
from turngym.envs.sokoban.solver import Solution, optimum, solve

CORRIDOR = parse_level("#######\n#@ $ .#\n#######")
CORNER = parse_level("######\n#$@ .#\n#    #\n######")


def played(level: Level, moves: Sequence[int], position: Position | None = None) -> tuple[Position, int]:
    """Where moves lead, and how many of them push; each must do something."""
    position, pushes = position or level.start, 0
    for direction in moves:
        pushes += is_push(level, position, direction)
        after = move(level, position, direction)
        assert after is not position
        position = after
    return position, pushes


def check(level: Level, solution: Solution) -> None:
    """A solution is what it says."""
    position, pushes = played(level, solution.moves)
    assert is_solved(level, position)
    assert pushes == solution.pushes


# Hand-worked -------------------------------------------------------------------------------------------------------


def test_a_corridor() -> None:
    assert solve(CORRIDOR) == Solution("optimal", (2, 2, 2), 2, 2)


def test_fewest_moves_and_fewest_pushes_differ() -> None:
    level = parse_level("######\n# $. #\n#    #\n# $.##\n##@ ##\n######")
    assert to_lurd(level, solve(level).moves) == "UluuRDldR"
    assert to_lurd(level, solve(level, metric="pushes").moves) == "ruulldRuluR"
    assert optimum(level) == 9


def test_solved_already() -> None:
    level = parse_level("#####\n#@ *#\n#####")
    assert solve(level) == Solution("optimal", (), 0, 0)
    assert solve(level, metric="any").status == "solved"
    assert optimum(level) == 0


def test_a_position_in_between() -> None:
    position = Position(9, (10,))
    assert solve(CORRIDOR, position) == Solution("optimal", (2, 2), 2, 2)
    assert optimum(CORRIDOR, position) == 2


def test_a_box_outside_is_done_with() -> None:
    level = parse_level("#######\n#@ $ .#\n#######\n# *   #\n#######")
    assert optimum(level) == 3


@pytest.mark.parametrize(
    "text",
    [
        "######\n#$@ .#\n#    #\n######",  # in a corner
        "######\n# $@ #\n# .  #\n######",  # along a wall without a goal
        "#######\n#@    #\n# $$  #\n# $$..#\n#  ..##\n#######",  # four in a block
        "########\n#@ #   #\n#  $$  #\n#  ##..#\n########",  # two side by side between walls
        "#######\n#@ #.##\n#  $  #\n#  #$.#\n#######",  # the player is shut out, and one box is in a corner
        "#######\n#.$@$ #\n#   ###\n#  .###\n#######".replace("$ #", "$##"),
    ],
)
@pytest.mark.parametrize("metric", ["moves", "pushes", "any"])
def test_no_solution(text: str, metric: Any, fewest: Callable[[str, str, int], int | None]) -> None:
    solution = solve(parse_level(text), metric=metric)
    assert fewest(text, "moves", 1_000_000) == -1
    assert (solution.status, solution.moves, solution.pushes) == ("unsolvable", (), 0)
    assert optimum(parse_level(text)) == -1


# Exhaustive search -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pushes"),
    [
        ("######\n### ##\n# .$ #\n# $  #\n#..$@#\n######", 4),
        ("#######\n##  ###\n# $ ###\n#..$ ##\n#  $+##\n#######", 4),
        ("#######\n# @   #\n#.$.$.#\n#### $#\n####  #\n#######", 3),
    ],
)
def test_boxes_along_which_the_player_may_push_past_an_area(
    text: str, pushes: int, fewest: Callable[[str, str, int], int | None]
) -> None:
    assert fewest(text, "pushes", 100_000) == pushes
    assert solve(parse_level(text), metric="pushes").pushes == pushes


@pytest.mark.parametrize("seed", range(250))
def test_agrees_with_exhaustive_search(
    seed: int, random_level: Callable[[int], Level], fewest: Callable[[str, str, int], int | None]
) -> None:
    level = random_level(seed)
    for metric in ("moves", "pushes"):
        solution, expected = solve(level, metric=metric), fewest(to_xsb(level), metric, 300_000)
        assert expected is not None
        assert solution.status == ("unsolvable" if expected < 0 else "optimal")
        if expected >= 0:
            check(level, solution)
            assert (len(solution.moves) if metric == "moves" else solution.pushes) == expected
    anyhow = solve(level, metric="any")
    assert (anyhow.status == "unsolvable") == (solution.status == "unsolvable")
    if anyhow.status == "solved":
        check(level, anyhow)


@pytest.mark.skipif(not COMPILED, reason="numba compiles it")
def test_the_compiled_search_is_the_same(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    random_level: Callable[[int], Level],
    fewest: Callable[[str, str, int], int | None],
) -> None:
    monkeypatch.syspath_prepend(root / "benchmarks")
    fewest_compiled = importlib.import_module("sokoban_compiled_search").fewest_compiled
    for seed in range(60):
        xsb = to_xsb(random_level(seed))
        for metric in ("moves", "pushes"):
            assert fewest_compiled(xsb, metric, 300_000) == fewest(xsb, metric, 300_000)
    assert fewest_compiled(to_xsb(load_pack()[0].level), "moves", 10) is None, "gives up"
    full = "\n".join(["#" * 14, f"#@{'$' * 12}#", f"#{'.' * 12} #", "#" * 14])
    assert fewest_compiled(full, "moves", 10) is None, "does not fit into one number"


def test_half_of_the_search_for_any_solution_is_played_backwards() -> None:
    limit, backwards = 60, 0
    for packed in load_pack()[:150]:
        solution = solve(packed.level, metric="any", max_expansions=limit)
        if solution.status == "solved":
            check(packed.level, solution)
            backwards += solution.expansions > limit // 2
    assert backwards > 10


def test_many_boxes_and_cells() -> None:
    hall = "\n".join(["#" * 14, "#@" + " " * 11 + "#", *[f"#{' $.' * 4}#", f"#{' ' * 12}#"] * 3, "#" * 14])
    level = parse_level(hall)
    assert (len(level.boxes), len(level.inside)) == (12, 84)
    for metric, status in (("pushes", "optimal"), ("any", "solved")):
        solution = solve(level, metric=metric, max_expansions=5000)
        assert (solution.status, solution.pushes) == (status, 12)
        check(level, solution)


def test_bounds_are_those_of_the_best_assignment() -> None:
    for packed in load_pack()[::100]:
        maze, of_cell, _ = numbers(packed.level)
        boxes, player = [of_cell[box] for box in packed.level.boxes], of_cell[packed.level.player]
        _, search = drive.run(drive.begin(maze, boxes, [player], drive.MOVES), drive.MOVES, 300)
        width = kernel.layout_width(maze.boxes)
        for layout in range(width, int(search.counters[kernel.USED_LAYOUTS]), width):
            cells = search.layouts[layout + kernel.CELLS : layout + kernel.CELLS + maze.boxes]
            best = min(
                sum(maze.distances[goal * (maze.size + 1) + cell] for goal, cell in enumerate(order))
                for order in itertools.permutations(cells)
            )
            bound = search.layouts[layout + kernel.BOUND]
            assert bound == best or (bound == kernel.FAR and (best > kernel.FAR or packed_in(maze, search, layout)))


def packed_in(maze: kernel.Maze, search: kernel.Search, layout: int) -> bool:
    """Whether some box of a layout is stuck."""
    return any(
        kernel.is_stuck(search, layout, search.layouts[layout + kernel.CELLS + index]) for index in range(maze.boxes)
    )


# Limits ------------------------------------------------------------------------------------------------------------


def test_giving_up() -> None:
    level = parse_level("######\n# $. #\n#    #\n# $.##\n##@ ##\n######")
    needed = solve(level).expansions
    assert solve(level, max_expansions=needed - 1) == Solution("gave_up", (), 0, needed - 1)
    assert solve(level, max_expansions=needed + 1) == solve(level)
    with pytest.raises(LevelError, match="in 3 expansions"):
        optimum(level, max_expansions=3)


def test_arguments() -> None:
    with pytest.raises(ValueError, match="metric must be one of moves, pushes, any, got 'turns'"):
        solve(CORRIDOR, metric="turns")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_expansions must be at least 1, got 0"):
        solve(CORRIDOR, max_expansions=0)


# With and without numba --------------------------------------------------------------------------------------------

PROGRAM = """
import dataclasses, json
import numpy as np
from turngym.envs.jit import COMPILED
from turngym.envs.sokoban.generator import generate
from turngym.envs.sokoban.maze import numbers
from turngym.envs.sokoban.packs import load_pack
from turngym.envs.sokoban.solver import solve

rng = np.random.default_rng(11)
rooms = [(6, 1), (7, 2), (6, 3)] * 4
levels = [generate(rng, size=size, boxes=boxes, min_moves=4, max_moves=20) for size, boxes in rooms]
levels += [packed.level for packed in load_pack()[::75]]
metrics = ("moves", "pushes", "any")
solutions = [solve(level, metric=metric, max_expansions=400) for level in levels for metric in metrics]
print(json.dumps([COMPILED, [dataclasses.asdict(level) for level in levels], list(map(dataclasses.asdict, solutions))]))
"""


@pytest.mark.skipif(not COMPILED, reason="needs numba")
def test_the_same_with_and_without_numba(run_python: Callable[..., str]) -> None:
    compiled, *results = json.loads(run_python("-c", PROGRAM, PYTHONHASHSEED="1"))
    plain, *others = json.loads(run_python("-c", PROGRAM, PYTHONHASHSEED="2", NUMBA_DISABLE_JIT="1"))
    assert (compiled, plain) == (True, False)
    assert results == others
    assert {"optimal", "gave_up", "solved"} <= {solution["status"] for solution in results[1]}
