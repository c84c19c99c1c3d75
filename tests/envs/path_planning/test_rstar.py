"""R* and RStar2: worked by hand, their guarantees, repair after changes of the map, and determinism."""

import heapq
import pickle
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.envs.path_planning import generate_problem
from turngym.envs.path_planning.maps import Cell, GridMap, Problem
from turngym.envs.path_planning.search.astar import PlanResult, astar
from turngym.envs.path_planning.search.graph import Edge, Graph, without_loops
from turngym.envs.path_planning.search.open_list import OpenList
from turngym.envs.path_planning.search.proposals import PROPOSALS
from turngym.envs.path_planning.search.rstar import rstar
from turngym.envs.path_planning.search.rstar2 import RStar2Planner, rstar2

FAMILIES = ["random", "rooms", "maze", "caves", "city", "terrain"]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def problem_of(seed: int, size: int = 20) -> Problem:
    family, connectivity = FAMILIES[seed % 6], (8, 4)[seed // 6 % 2]
    return generate_problem(rng(seed), family, rows=size, cols=size, connectivity=connectivity, min_steps=12)  # type: ignore[arg-type]


def steps_ahead(*steps: int) -> Callable[..., Sequence[Cell]]:
    """A proposal that always looks so many columns to the right."""

    def propose(grid_map: GridMap, cell: Cell, goal: Cell, distance: int, successors: int, _: Any) -> list[Cell]:
        return [(cell[0], cell[1] + step) for step in steps if grid_map.is_free((cell[0], cell[1] + step))]

    return propose


def check_result(problem: Problem, result: PlanResult) -> None:
    """A legal path of the stated cost, and a true bound."""
    optimum = astar(problem.map, problem.start, problem.goal).cost
    assert result.lower <= optimum * (1 + 1e-9)
    if result.path:
        assert (result.path[0], result.path[-1]) == (problem.start, problem.goal)
        assert problem.map.path_cost(result.path) <= result.cost * (1 + 1e-9)
        assert optimum * (1 - 1e-9) <= result.cost <= result.bound * optimum * (1 + 1e-9)


# R* ----------------------------------------------------------------------------------------------------------------

CORRIDOR = GridMap.from_ascii("_______", connectivity=4)


def test_rstar_by_hand() -> None:
    """From column 0 the one waypoint at distance 3 is column 3, and from there the goal is at distance 3."""
    result = rstar(CORRIDOR, (0, 0), (0, 6), rng=rng(), distance=3, successors=20, epsilon=2.0)
    assert result.cost == 6
    # Two nodes of the graph, and three cells for each of the two short searches: neither expands its goal.
    assert result.expansions == 2 + 3 + 3
    assert result.graph is not None
    assert [(edge.origin, edge.target, edge.cost) for edge in result.graph.edges.values()] == [
        ((0, 0), (0, 3), 3.0),
        ((0, 3), (0, 6), 3.0),
    ]
    assert (result.bound, result.status) == (1.0, "solved")  # the heuristic from start to goal is 6 too


def test_rstar_puts_hard_searches_off_and_then_gives_them_no_limit() -> None:
    result = rstar(CORRIDOR, (0, 0), (0, 6), rng=rng(), distance=3, successors=20, threshold=1)
    # Each short search fails once after one expansion, and is done in three when it is tried again.
    assert result.expansions == 2 + (1 + 3) + (1 + 3)
    assert result.cost == 6


def test_rstar_prefers_what_is_not_avoid() -> None:
    """The straight way to the goal is walled off; the hard search through it comes last, though its key is smaller."""
    grid_map = GridMap.from_ascii("_________\n____#____\n____#____\n____#____\n____#____", connectivity=8)
    result = rstar(grid_map, (4, 3), (4, 5), rng=rng(3), distance=4, successors=8, threshold=5, epsilon=3.0)
    assert result.graph is not None
    straight = result.graph.edges[(4, 3), (4, 5)]
    assert straight.path == ()
    assert straight.expansions == 5
    assert result.path


def test_open_list_is_lexicographic() -> None:
    waiting = OpenList()
    for cell, key in [((0, 0), (True, 1.0)), ((0, 1), (False, 9.0)), ((0, 2), (False, 9.0)), ((0, 3), (False, 5.0))]:
        waiting.insert(cell, key)
    waiting.insert((0, 3), (True, 0.5))
    waiting.remove((0, 2))
    assert [waiting.pop() for _ in range(4)] == [(0, 1), (0, 3), (0, 0), None]


@pytest.mark.parametrize("seed", range(12))
def test_rstar_on_every_family(seed: int) -> None:
    problem = problem_of(seed)
    result = rstar(problem.map, problem.start, problem.goal, rng=rng(), distance=6, max_expansions=4000)
    check_result(problem, result)
    assert result.expansions <= 4000


@pytest.mark.parametrize("seed", range(30))
def test_rstar_is_within_epsilon_of_its_graph(seed: int) -> None:
    """With few obstacles no waypoint is AVOID, and the cost is within ε of the best path through the graph."""
    land = rng(seed).random((25, 25)) > 0.1
    land[2, 2] = land[22, 21] = True
    problem = Problem(GridMap.from_array(land, connectivity=8), (2, 2), (22, 21))
    result = rstar(problem.map, problem.start, problem.goal, rng=rng(seed), distance=8, epsilon=1.5)
    assert result.graph is not None
    assert result.cost <= 1.5 * cheapest(result.graph.edges.values(), problem, exact_cost(problem)) * (1 + 1e-9)


def test_rounds_of_rstar_start_from_nothing_and_keep_the_best_path() -> None:
    problem = problem_of(1)
    arguments = {"distance": 6, "max_expansions": 20000}
    draws = rng(5)
    single = [
        rstar(problem.map, problem.start, problem.goal, rng=draws, epsilon=epsilon, **arguments)  # type: ignore[arg-type]
        for epsilon in (3.0, 2.0, 1.5)
    ]
    anytime = rstar(problem.map, problem.start, problem.goal, rng=rng(5), epsilon=(3.0, 2.0, 1.5), **arguments)  # type: ignore[arg-type]
    assert anytime.cost == min(result.cost for result in single)
    assert anytime.expansions == sum(result.expansions for result in single)


# Γ -----------------------------------------------------------------------------------------------------------------


def cheapest(edges: Iterable[Edge], problem: Problem, cost: Callable[[Edge], float]) -> float:
    """The cheapest chain of edges from start to goal."""
    leaving: dict[Cell, list[Edge]] = {}
    for edge in edges:
        leaving.setdefault(edge.origin, []).append(edge)
    frontier, done = [(0.0, problem.start)], set()
    while frontier:
        spent, cell = heapq.heappop(frontier)
        if cell == problem.goal:
            return spent
        if cell not in done:
            done.add(cell)
            for edge in leaving.get(cell, []):
                heapq.heappush(frontier, (spent + cost(edge), edge.target))
    return inf


def exact_cost(problem: Problem) -> Callable[[Edge], float]:
    return lambda edge: astar(problem.map, edge.origin, edge.target).cost


def check_graph(graph: Graph) -> None:
    """Every stored path is legal and costs what is said, and every bound is true."""
    for edge in graph.edges.values():
        free = graph.map.is_free(edge.origin) and graph.map.is_free(edge.target)
        assert edge.lower <= (astar(graph.map, edge.origin, edge.target).cost if free else inf) * (1 + 1e-9)
        if edge.path:
            assert (edge.path[0], edge.path[-1]) == (edge.origin, edge.target)
            assert graph.map.path_cost(edge.path) == pytest.approx(edge.cost)
        else:
            assert edge.cost == inf


def test_an_edge_remembers_what_its_searches_found() -> None:
    graph = Graph(GridMap.from_ascii("_____\n_###_\n_____", connectivity=4))
    edge = graph.connect((0, 0), (2, 2))
    assert (edge.lower, edge.path, edge.avoid(2.0)) == (4.0, (), False)
    failed = graph.evaluate(edge, weight=2.0, budget=2)
    assert (failed.status, edge.failures, edge.expansions, edge.avoid(2.0)) == ("gave_up", 1, 2, True)
    graph.evaluate(edge, weight=1.0)
    assert (edge.lower, edge.cost, edge.failures, edge.avoid(1.0)) == (4.0, 4.0, 0, False)
    assert graph.expansions == edge.expansions
    assert graph.connect((0, 0), (2, 2)) is edge
    assert graph.nodes == [(0, 0), (2, 2)]
    assert graph.route((0, 0), (2, 2)) == (((0, 0), (1, 0), (2, 0), (2, 1), (2, 2)), 4.0)
    assert graph.route((2, 2), (0, 0)) == ((), inf)


def test_a_route_has_no_loops() -> None:
    graph = Graph(GridMap.from_ascii("____", connectivity=4))
    for origin, target in (((0, 0), (0, 3)), ((0, 3), (0, 1))):
        graph.evaluate(graph.connect(origin, target))
    assert graph.route((0, 0), (0, 1)) == (((0, 0), (0, 1)), 1.0)
    assert without_loops([(0, 0), (0, 1), (0, 2), (0, 1), (0, 0), (0, 1)]) == ((0, 0), (0, 1))


def test_a_blocked_cell_drops_the_paths_through_it_alone() -> None:
    graph = Graph(GridMap.from_ascii("____\n____\n____", connectivity=4))
    upper, lower = graph.connect((0, 0), (0, 3)), graph.connect((2, 0), (2, 3))
    for edge in (upper, lower):
        graph.evaluate(edge)
    graph.update(graph.map.with_blocked([(0, 2)]))
    assert (upper.path, upper.cost, upper.lower) == ((), inf, 3.0)  # the bound still holds
    assert (len(lower.path), lower.cost) == (4, 3.0)


def test_a_freed_cell_lowers_bounds_by_how_far_the_detour_is() -> None:
    graph = Graph(GridMap.from_ascii("___#___\n___#___\n_______", connectivity=4))
    edge = graph.connect((0, 0), (0, 6))
    graph.evaluate(edge)
    assert edge.lower == 10
    graph.update(graph.map.with_free([(1, 3)]))
    assert (edge.lower, edge.cost) == (6.0, 10.0)  # the cell above the freed one might be on a new path of 6
    graph.evaluate(edge)
    assert (edge.lower, edge.cost) == (8.0, 8.0)


def test_a_freed_cell_can_open_a_diagonal_beside_it() -> None:
    """The new cheapest path does not pass the freed cell: it passes its corner."""
    graph = Graph(GridMap.from_ascii("__#\n#__\n___", connectivity=8))
    edge = graph.connect((0, 0), (1, 1))
    graph.evaluate(edge)
    assert edge.cost == 2.0
    graph.update(graph.map.with_free([(1, 0)]))
    graph.evaluate(edge)
    assert edge.cost == pytest.approx(2**0.5)
    check_graph(graph)


def test_an_unreachable_waypoint_is_reachable_again() -> None:
    graph = Graph(GridMap.from_ascii("__#__", connectivity=4))
    edge = graph.connect((0, 0), (0, 4))
    assert graph.evaluate(edge).status == "unsolvable"
    assert edge.lower == inf
    graph.update(graph.map.with_blocked([(0, 4)]))
    assert graph.evaluate(edge) == PlanResult((), inf, 0, inf, "unsolvable")
    graph.update(graph.map.with_free([(0, 4), (0, 2)]))
    assert graph.evaluate(edge).cost == 4


def test_graph_refuses_a_map_of_other_rules() -> None:
    with pytest.raises(ValueError, match="a changed map must keep connectivity=4, got 8"):
        Graph(CORRIDOR).update(GridMap.from_ascii("_______", connectivity=8))


def changed(grid_map: GridMap, keep: set[Cell], draws: np.random.Generator, count: int = 3) -> GridMap:
    """A map with a few cells blocked, freed, flooded or given other costs."""
    zones, costs = grid_map.zones.copy(), grid_map.costs.copy()
    for _ in range(count):
        cell = (int(draws.integers(grid_map.rows)), int(draws.integers(grid_map.cols)))
        if cell not in keep:
            zones[cell] = draws.choice([0, 0, 1, 1, 1, 2])
            costs[cell] = draws.choice([1.0, 1.0, 4.0, 0.5])
    return GridMap(zones, costs, grid_map.connectivity, grid_map.corners, grid_map.cell_size)


@given(st.integers(0, 10_000), st.sampled_from(["both_free", "one_free", "always"]), st.sampled_from([4, 8]))
@settings(max_examples=60)
def test_what_a_graph_keeps_stays_true(seed: int, corners: Any, connectivity: Any) -> None:
    draws = rng(seed)
    zones = (draws.random((9, 9)) > 0.3).astype(np.uint8)
    graph = Graph(GridMap(zones, None, connectivity, corners))  # type: ignore[arg-type]
    cells = [(row, col) for row, col in draws.integers(0, 9, (8, 2)).tolist()]
    for _ in range(4):
        for origin, target in draws.choice(8, (6, 2)).tolist():
            budget = None if draws.random() < 0.5 else int(draws.integers(8))
            graph.evaluate(graph.connect(cells[origin], cells[target]), weight=draws.choice([1.0, 2.0]), budget=budget)
        graph.update(changed(graph.map, set(), draws))
        check_graph(graph)


# RStar2 ------------------------------------------------------------------------------------------------------------


def test_rstar2_by_hand() -> None:
    """The search from start to goal goes first, and ends on an easy map: eight cells, the goal not among them."""
    grid_map = GridMap.from_ascii("_________", connectivity=4)
    result = rstar2(grid_map, (0, 0), (0, 8), rng=rng(), proposal=steps_ahead(4))
    assert (result.expansions, result.cost, result.bound) == (8, 8.0, 1.0)


def test_rstar2_goes_by_waypoints_when_the_direct_search_takes_too_long() -> None:
    """A pocket of 63 cells; the direct search fills 1 + 3 * 10 of it, and then a way round is tried."""
    grid_map = GridMap.from_ascii("\n".join(["_" * 12, *["_" * 9 + "#__"] * 7, "#" * 10 + "__"]), connectivity=4)
    way = {(7, 0): [(0, 0)], (0, 0): [(0, 10)], (0, 10): []}
    planner = RStar2Planner(
        grid_map, (7, 0), (7, 10), rng=rng(), proposal=lambda _, cell, *rest: way[cell], distance=12, spacing=0.0
    )
    result = planner.plan(2.0)
    assert result.cost == 7 + 10 + 7
    assert planner.graph.nodes == [(7, 0), (7, 10), (0, 0), (0, 10)]
    direct, up, along, down = planner.graph.edges.values()  # the goal is in sight from the last waypoint
    assert [edge.expansions for edge in (direct, up, along, down)] == [31, 7, 10, 7]
    assert result.expansions == 31 + 7 + 10 + 7 + 3  # the three nodes that were expanded count too
    assert direct.avoid(2.0)
    assert 10 < result.lower == direct.lower <= 24


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", sorted(PROPOSALS))
def test_rstar2_on_every_family(seed: int, name: str) -> None:
    problem = problem_of(seed)
    planner = RStar2Planner(
        problem.map, problem.start, problem.goal, rng=rng(), proposal=PROPOSALS[name], distance=6, threshold=20
    )
    result = planner.plan(1.5)
    check_result(problem, result)
    check_graph(planner.graph)
    assert result.status == "solved"


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_rstar2_is_within_epsilon_of_its_graph(seed: int, epsilon: float) -> None:
    """Of the graph without AVOID edges, whatever those cost that were not searched."""
    problem = problem_of(seed)
    planner = RStar2Planner(
        problem.map, problem.start, problem.goal, rng=rng(), proposal=PROPOSALS["uniform"], distance=5, patience=100
    )
    result = planner.plan(epsilon)
    usable = [edge for edge in planner.graph.edges.values() if edge.path or (not edge.failures and not edge.expansions)]
    best = cheapest(usable, problem, lambda edge: exact_cost(problem)(edge) if edge.path else edge.lower)
    assert result.cost <= epsilon * best * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("epsilon", [1.0, 1.2, 2.0])
def test_a_proved_plan_is_within_epsilon_of_the_optimum(seed: int, epsilon: float) -> None:
    problem = problem_of(seed)
    result = rstar2(problem.map, problem.start, problem.goal, rng=rng(), distance=6, epsilon=epsilon, prove=True)
    check_result(problem, result)
    assert result.bound <= epsilon * (1 + 1e-9)


def test_a_falling_epsilon_costs_less_than_planning_afresh() -> None:
    together = afresh = 0
    for seed in range(12):
        problem = problem_of(seed)
        steps = (3.0, 2.0, 1.5, 1.2)
        arguments = {"distance": 6, "prove": True}
        together += rstar2(problem.map, problem.start, problem.goal, rng=rng(), epsilon=steps, **arguments).expansions  # type: ignore[arg-type]
        for epsilon in steps:
            result = rstar2(problem.map, problem.start, problem.goal, rng=rng(), epsilon=epsilon, **arguments)  # type: ignore[arg-type]
            afresh += result.expansions
    assert together < afresh


def test_a_second_plan_costs_nothing_but_a_look_at_the_graph() -> None:
    problem = problem_of(2)
    planner = RStar2Planner(problem.map, problem.start, problem.goal, rng=rng(), distance=6)
    first = planner.plan(2.0, prove=True)
    cells = planner.graph.expansions
    second = planner.plan(2.0, prove=True)
    assert (second.path, second.cost) == (first.path, first.cost)
    assert planner.graph.expansions == cells


@pytest.mark.parametrize("seed", range(6))
def test_unsolvable_is_proved(seed: int) -> None:
    problem = problem_of(seed)
    around = [cell for cell, _ in GridMap(problem.map.zones, None, 8, "always").neighbours(problem.goal)]  # type: ignore[arg-type]
    walled = problem.map.with_blocked(set(around) - {problem.start})
    result = rstar2(walled, problem.start, problem.goal, rng=rng(), distance=6)
    assert (result.status, result.lower, result.bound) == ("unsolvable", inf, inf)


def test_a_limit_is_kept() -> None:
    problem = problem_of(2)
    for limit in (0, 1, 7, 50):
        result = rstar2(problem.map, problem.start, problem.goal, rng=rng(), distance=6, max_expansions=limit)
        assert result.expansions <= limit
        check_result(problem, result)


# Driven from outside -----------------------------------------------------------------------------------------------


def test_driving_the_steps_is_planning() -> None:
    problem = problem_of(4)
    arguments = {"distance": 6, "rng": rng(), "threshold": 20}
    planned = RStar2Planner(problem.map, problem.start, problem.goal, **arguments)  # type: ignore[arg-type]
    expected = planned.plan(2.0)
    draws = rng()
    driven = RStar2Planner(problem.map, problem.start, problem.goal, **{**arguments, "rng": draws})  # type: ignore[arg-type]
    driven.begin(2.0)
    while (cell := driven.advance()) is not None:
        driven = pickle.loads(pickle.dumps(driven))
        driven.offer(PROPOSALS["corners_and_doors"](problem.map, cell, problem.goal, 6, 10, draws))
    assert driven.result() == expected


def test_steps_out_of_order_are_refused() -> None:
    planner = RStar2Planner(problem_of(2).map, problem_of(2).start, problem_of(2).goal, rng=rng(), distance=6)
    with pytest.raises(ValueError, match="no waypoint waits for an offer"):
        planner.offer([])
    planner.begin(1.0)
    assert planner.advance() is not None
    with pytest.raises(ValueError, match="still waits for an offer"):
        planner.advance()


def test_offers_that_are_blocked_are_passed_over() -> None:
    grid_map = GridMap.from_ascii("__#__\n__#__\n_____", connectivity=4)
    planner = RStar2Planner(grid_map, (0, 0), (0, 4), rng=rng(), distance=2, patience=1000)
    planner.begin(1.0)
    planner._round.spent_directly = 1  # the direct search is not due
    assert planner.advance() == (0, 0)
    planner.offer([(0, 2), (9, 9), (0, 0), (1, 1)])
    assert planner.graph.nodes == [(0, 0), (0, 4), (1, 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"distance": 0}, "distance must be at least 1, got 0"),
        ({"successors": 0}, "successors must be at least 1, got 0"),
        ({"threshold": 0}, "threshold must be at least 1, got 0"),
        ({"epsilon": 0.5}, "epsilon must be at least 1 and finite, got 0.5"),
        ({"start": (5, 5)}, "start must be a free cell"),
        ({"spacing": 1.5}, "spacing must be between 0 and 1, got 1.5"),
        ({"patience": -1.0}, "patience must be at least 0 and finite, got -1.0"),
        ({"max_expansions": -1}, "max_expansions must be at least 0, got -1"),
    ],
)
def test_planners_refuse(arguments: dict[str, Any], message: str) -> None:
    whole = {"start": (0, 0), "goal": (0, 6), "rng": rng(), **arguments}
    with pytest.raises(ValueError, match=message):
        rstar2(CORRIDOR, **whole)
    if not {"spacing", "patience", "max_expansions"} & set(arguments):
        with pytest.raises(ValueError, match=message):
            rstar(CORRIDOR, **whole)


# Repair ------------------------------------------------------------------------------------------------------------


REPAIRS = [("caves", 8, 1.0, True), ("random", 8, 2.0, True), ("terrain", 4, 2.0, False), ("maze", 4, 1.2, False)]
MORE_REPAIRS = [(family, 8, epsilon, prove) for family in FAMILIES for epsilon, prove in ((1.0, True), (1.5, False))]


@pytest.mark.parametrize(
    ("family", "connectivity", "epsilon", "prove"),
    [*REPAIRS, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE_REPAIRS)],
)
def test_repair_after_a_hundred_changes(family: Any, connectivity: Any, epsilon: float, prove: bool) -> None:
    """Proved with ε = 1, both are optimal; proved with ε, both are within it; and repair always expands less."""
    problem = generate_problem(rng(3), family, rows=32, cols=32, connectivity=connectivity, min_steps=30)
    start, goal, draws, arguments = problem.start, problem.goal, rng(4), {"distance": 8}
    repaired = RStar2Planner(problem.map, start, goal, rng=rng(5), **arguments)  # type: ignore[arg-type]
    spent = spent_afresh = 0
    for _ in range(100):
        repaired.update(changed(repaired.graph.map, {start, goal}, draws))
        here = Problem(repaired.graph.map, start, goal)
        result = repaired.plan(epsilon, prove=prove)
        afresh = RStar2Planner(here.map, start, goal, rng=rng(5), **arguments).plan(epsilon, prove=prove)  # type: ignore[arg-type]
        spent, spent_afresh = spent + result.expansions, spent_afresh + afresh.expansions
        check_result(here, result)
        assert result.status == afresh.status
        if result.path and prove:
            assert max(result.bound, afresh.bound) <= epsilon * (1 + 1e-9)
            assert epsilon > 1 or result.cost == pytest.approx(afresh.cost)
    assert spent < spent_afresh
    check_graph(repaired.graph)


def test_repair_searches_only_where_a_path_was_cut() -> None:
    """Two ways round a wall; the shorter is cut, and the longer, which is stored, is not searched again."""
    grid_map = GridMap.from_ascii("_____\n_###_\n_____\n_###_\n_____", connectivity=4)
    proposal = {(2, 0): [(0, 0), (4, 0)], (0, 0): [(0, 4)], (4, 0): [(4, 4)]}
    planner = RStar2Planner(
        grid_map, (2, 0), (2, 4), rng=rng(), proposal=lambda _, cell, *rest: proposal.get(cell, []), distance=4
    )
    assert planner.plan(1.0).cost == 4
    for target in ((0, 0), (4, 0)):
        for edge in (planner.graph.connect((2, 0), target), planner.graph.connect(target, (target[0], 4))):
            planner.graph.evaluate(edge)
        planner.graph.evaluate(planner.graph.connect((target[0], 4), (2, 4)))
    cells = planner.graph.expansions
    planner.update(grid_map.with_blocked([(2, 2)]))
    assert planner.plan(1.0).cost == 8
    assert planner.graph.expansions == cells
    before = {ends: edge.expansions for ends, edge in planner.graph.edges.items()}
    planner.update(planner.graph.map.with_blocked([(0, 2)]))
    assert planner.plan(1.0).cost == 8
    searched = [ends for ends, edge in planner.graph.edges.items() if edge.expansions > before[ends]]
    assert searched == [((0, 0), (0, 4))]


def test_moving_along_the_path_costs_little() -> None:
    problem = problem_of(3)
    planner = RStar2Planner(problem.map, problem.start, problem.goal, rng=rng(), distance=6)
    first = planner.plan(2.0)
    for cell in first.path[1:-1:3]:
        planner.move(cell)
        result = planner.plan(2.0)
        check_result(Problem(problem.map, cell, problem.goal), result)
    with pytest.raises(ValueError, match="start must be a free cell"):
        planner.move((-1, 0))


def test_a_blocked_goal_is_unsolvable_until_it_is_free() -> None:
    problem = problem_of(3)
    planner = RStar2Planner(problem.map, problem.start, problem.goal, rng=rng(), distance=6)
    first = planner.plan(2.0)
    planner.update(problem.map.with_blocked([problem.goal]))
    assert planner.plan(2.0).status == "unsolvable"
    planner.update(problem.map)
    assert planner.plan(2.0).cost <= 2 * first.cost
