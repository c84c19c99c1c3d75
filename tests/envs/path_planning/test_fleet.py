"""All agents move at once: what is allowed, what is not, and that nobody's number matters."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from turngym.envs.path_planning.fleet import MOVES, STAY, Cells, Conflict, Fleet, advance, distances, steps
from turngym.envs.path_planning.maps import GridMap

LEFT, DOWN, RIGHT, UP = range(4)
ROOM = GridMap.from_ascii("____\n____\n____")
ROW = GridMap.from_ascii("_____")


@st.composite
def crowds(draw: st.DrawFn) -> tuple[GridMap, Cells, list[int]]:
    """A map, agents on it, and a move for each."""
    rows, cols = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    blocked = draw(st.sets(st.integers(0, rows * cols - 1), max_size=rows * cols // 3))
    grid_map = GridMap.from_array([[row * cols + col not in blocked for col in range(cols)] for row in range(rows)])
    free = list(steps(grid_map))
    cells = draw(st.permutations(free))[: draw(st.integers(1, 8))]
    assume(cells)
    return grid_map, tuple(cells), [draw(st.integers(0, STAY)) for _ in cells]


@given(crowds())
def test_no_two_agents_in_one_cell_and_no_swaps(crowd: tuple[GridMap, Cells, list[int]]) -> None:
    grid_map, cells, moves = crowd
    after, _ = advance(grid_map, cells, moves)
    assert len(set(after)) == len(after)
    assert all(map(grid_map.is_free, after))
    went = {(one, other) for one, other in zip(cells, after, strict=True) if one != other}
    assert not {(other, one) for one, other in went} & went


@given(crowds())
def test_everyone_gets_the_claim_or_is_told_why_not(crowd: tuple[GridMap, Cells, list[int]]) -> None:
    grid_map, cells, moves = crowd
    after, conflicts = advance(grid_map, cells, moves)
    told = {agent for conflict in conflicts if conflict.kind != "held" for agent in conflict.agents}
    told |= {conflict.agents[0] for conflict in conflicts if conflict.kind == "held"}
    claims = [steps(grid_map)[cell][move] for cell, move in zip(cells, moves, strict=True)]
    for agent, (cell, move) in enumerate(zip(cells, moves, strict=True)):
        assert after[agent] == (cell if agent in told else claims[agent])
        assert agent not in told or move != STAY
    for kind, agents, cell in conflicts:  # every reason is a true one
        if kind == "wall":
            assert claims[agents[0]] == cells[agents[0]] == cell
        elif kind == "cell":
            assert len(agents) > 1
            assert {claims[agent] for agent in agents} == {cell}
        elif kind == "swap":
            one, other = agents
            assert (claims[one], claims[other]) == (cells[other], cells[one]) == (cell, cells[one])
        else:
            claimant, holder = agents
            assert claims[claimant] == cells[holder] == after[holder] == cell


@given(crowds())
def test_nobody_stays_without_need(crowd: tuple[GridMap, Cells, list[int]]) -> None:
    """The most agents that can move, move: whoever stays met a wall, a rival, or one who stays."""
    grid_map, cells, moves = crowd
    after, _ = advance(grid_map, cells, moves)
    claims = [steps(grid_map)[cell][move] for cell, move in zip(cells, moves, strict=True)]
    who = {cell: agent for agent, cell in enumerate(cells)}
    for agent, claim in enumerate(claims):
        if after[agent] == claim:
            continue
        rivals = claims.count(claim) > 1
        other = who.get(claim, agent)
        swap = other != agent and claims[other] == cells[agent]
        held = other != agent and after[other] == claim
        assert rivals or swap or held


@given(crowds(), st.randoms(use_true_random=False))
def test_the_order_of_agents_does_not_matter(crowd: tuple[GridMap, Cells, list[int]], random: Any) -> None:
    grid_map, cells, moves = crowd
    order = list(range(len(cells)))
    random.shuffle(order)
    plain = advance(grid_map, cells, moves)
    mixed = advance(grid_map, tuple(cells[old] for old in order), [moves[old] for old in order])
    assert mixed.cells == tuple(plain.cells[old] for old in order)
    assert told(mixed.conflicts, order) == told(plain.conflicts, range(len(cells)))


def told(conflicts: tuple[Conflict, ...], names: Any) -> set[tuple[Any, ...]]:
    """Conflicts under other numbers; the cell of a swap depends on who is named first, and its two say all."""
    renamed = []
    for kind, agents, cell in conflicts:
        who = tuple(names[agent] for agent in agents)
        renamed.append((kind, who if kind == "held" else frozenset(who), None if kind == "swap" else cell))
    return set(renamed)


def test_three_in_a_row_move_on() -> None:
    assert advance(ROW, ((0, 0), (0, 1), (0, 2)), [RIGHT] * 3) == (((0, 1), (0, 2), (0, 3)), ())
    assert advance(ROW, ((0, 2), (0, 1), (0, 0)), [RIGHT] * 3) == (((0, 3), (0, 2), (0, 1)), ())


def test_a_ring_turns() -> None:
    ring = ((0, 0), (0, 1), (1, 1), (1, 0))
    assert advance(ROOM, ring, [RIGHT, DOWN, LEFT, UP]) == ((*ring[1:], ring[0]), ())


def test_a_ring_of_two_is_a_swap() -> None:
    turn = advance(ROW, ((0, 1), (0, 2)), [RIGHT, LEFT])
    assert turn == (((0, 1), (0, 2)), (Conflict("swap", (0, 1), (0, 2)),))


def test_two_want_one_cell_and_a_third_wants_to_follow() -> None:
    turn = advance(ROW, ((0, 1), (0, 3), (0, 0)), [RIGHT, LEFT, RIGHT])
    assert turn.cells == ((0, 1), (0, 3), (0, 0))
    assert turn.conflicts == (Conflict("cell", (0, 1), (0, 2)), Conflict("held", (2, 0), (0, 1)))


def test_one_leaves_the_cell_that_two_want() -> None:
    turn = advance(ROOM, ((1, 1), (1, 0), (0, 1)), [RIGHT, RIGHT, DOWN])
    assert turn.cells == ((1, 2), (1, 0), (0, 1))
    assert turn.conflicts == (Conflict("cell", (1, 2), (1, 1)),)


def test_a_wall_holds_back_a_whole_row() -> None:
    turn = advance(ROW, ((0, 4), (0, 3), (0, 2)), [RIGHT] * 3)
    assert turn.cells == ((0, 4), (0, 3), (0, 2))
    assert turn.conflicts == (
        Conflict("held", (1, 0), (0, 4)),
        Conflict("held", (2, 1), (0, 3)),
        Conflict("wall", (0,), (0, 4)),
    )


def test_land_and_water_are_walls_to_each_other() -> None:
    turn = advance(GridMap.from_ascii("_-"), ((0, 0),), [RIGHT])
    assert turn == (((0, 0),), (Conflict("wall", (0,), (0, 0)),))


def test_distances_are_the_fewest_moves() -> None:
    grid_map = GridMap.from_ascii("__#_\n#___\n__#_\n-#__")
    found = distances(grid_map, (0, 0))
    assert found == {
        **{(0, 0): 0, (0, 1): 1, (1, 1): 2, (1, 2): 3, (2, 1): 3, (2, 0): 4, (1, 3): 4},
        **{(0, 3): 5, (2, 3): 5, (3, 3): 6, (3, 2): 7},
    }
    assert MOVES == ("Left", "Down", "Right", "Up", "Stay")


@pytest.mark.parametrize(
    ("grid_map", "starts", "goals", "message"),
    [
        (ROW, (), (), "starts and goals must be equally many, 1 to 26, got 0 and 0"),
        (ROW, ((0, 0),), ((0, 1), (0, 2)), "got 1 and 2"),
        (ROW, ((0, 0), (0, 0)), ((0, 1), (0, 2)), r"starts must be free cells of the map, each given once, got"),
        (ROW, ((0, 0),), ((0, 5),), "goals must be free cells"),
        (replace(ROW, connectivity=8), ((0, 0),), ((0, 1),), "map must have 4 neighbours a cell .* got connectivity 8"),
        (GridMap.from_ascii("_2"), ((0, 0),), ((0, 1),), "cost factors of 1, got connectivity 4 and factors up to 2"),
    ],
)
def test_bad_fleets_are_named(grid_map: GridMap, starts: Cells, goals: Cells, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Fleet(grid_map, starts, goals)


def test_cells_become_plain_numbers() -> None:
    fleet = Fleet(ROW, tuple(map(tuple, np.array([[0, 1], [0, 2]]))), ((0, 0), (0, 3)))
    assert fleet.starts == ((0, 1), (0, 2))
    assert all(type(part) is int for cell in fleet.starts for part in cell)
