"""Planners on grid maps: expansions, cost and time of A*, weighted A*, R* and RStar2, and A* beside other libraries.

    python benchmarks/planning.py [--data ../shared/data/movingai] [--page docs/results/planning.md]

Three parts, each of which gives tables in Markdown; they are printed, and with `--page` written there with a figure:

- planners: every planner has its settings chosen among the same number of draws from a grid, on tuning maps (the
  smallest geometric mean of expansions, in those of A*; a query that is not solved within the budget counts as the
  budget). Then all plan the same queries on other maps of the same families. ε is 2; R* alone may also take 3.
- repair: RStar2 after each of a hundred changes of the map, beside planning afresh and A*.
- libraries: A* here, with numba and without, beside networkx, pathfinding and nano-astar on the same queries.

Without `--data` the maps are generated ones alone. Results are kept for each map, so that a run that was stopped goes
on where it was; a folder holds one set of arguments. Time is CPU time of the process, without compiling.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import hypot, inf
from pathlib import Path
from typing import Any

import numpy as np
from learning import machine, save
from planning_page import draw, table, tables
from tqdm import tqdm

from turngym.envs.path_planning import (
    GridMap,
    astar,
    generate_map,
    generate_problem,
    load_map,
    load_scenarios,
    rstar,
    rstar2,
)
from turngym.envs.path_planning.maps import Cell, Problem
from turngym.envs.path_planning.search import PROPOSALS, PlanResult, RStar2Planner, distance_field

GENERATED = ("random", "rooms", "maze", "caves", "city", "terrain")
TUNING = {
    "bg512": ["AR0011SR"],
    "cities": ["Boston_0_256"],
    "da2": ["lt_house"],
    "dao": ["lak303d"],
    "mazes": ["maze512-32-9"],
    "random": ["random512-25-2"],
    "rooms": ["32room_000"],
}
TEST = {
    "bg512": ["AR0072SR"],
    "cities": ["Berlin_1_256", "NewYork_2_512"],
    "da2": ["ht_chantry"],
    "dao": ["brc202d", "den101d", "ost003d"],
    "mazes": ["maze512-1-0"],
    "random": ["random512-10-0", "random512-40-2"],
    "rooms": ["16room_000"],
}
GRID = {"distance": [10, 16, 32, 50, 100], "successors": [5, 10, 20], "threshold": [50, 200, 1000, 5000]}
GRIDS = {
    "R*": GRID | {"epsilon": [2.0, 3.0]},
    **{f"RStar2, {name}": GRID | {"spacing": [0.5, 0.75, 1.0], "patience": [1.0, 3.0]} for name in PROPOSALS},
}
PLANNERS = ("A*", "wA*(2)", *GRIDS)
R_STAR_DEFAULTS = {"distance": 20, "successors": 10, "threshold": 1000, "epsilon": 2.0}
R_STAR_2_DEFAULTS = {"distance": 32, "successors": 10, "threshold": 200, "spacing": 0.75, "patience": 3.0}

PLANNERS_SAID = """## Planners

MovingAI's maps by family, and generated ones of 256x256 cells; the queries of a map are spread over the lengths above a
fifth of its longest (generated maps: above half a side). R* and RStar2 with each proposal had their settings chosen
among equally many draws, on other maps of the same families. ε is 2; R* alone may also take 3. *oracle* is no planner:
its waypoints lie on a cheapest path, and show what good waypoints could save. No learned proposal is among them.
""".splitlines()
REPAIR_SAID = """## Repair

Expansions for 100 plans on a 64x64 map, three cells blocked or freed before each; last, the cost of all paths in that
of the cheapest. *proved* goes on until the bound is proved.
""".splitlines()
LIBRARIES_SAID = """## A* beside other libraries

Milliseconds (CPU) for one query, best of three, median over the queries; in brackets how many times ours, median of the
queries' ratios. networkx has its graph built beforehand, and that is not counted.
""".splitlines()


@dataclass(frozen=True)
class MapSet:
    """A map and the queries on it."""

    family: str
    name: str
    map: GridMap
    queries: list[tuple[Cell, Cell]]

    def optima(self) -> list[PlanResult]:
        """What A* finds for each query."""
        return [astar(self.map, start, goal) for start, goal in self.queries]


# Maps --------------------------------------------------------------------------------------------------------------


def map_sets(stage: str, args: argparse.Namespace) -> Iterator[MapSet]:
    """The maps of a stage, with queries spread evenly over the lengths above a fifth of the longest."""
    for number, family in enumerate(GENERATED):
        for index in range(1 if stage == "tuning" else args.generated_maps):
            rng = np.random.default_rng([number, index, stage == "test"])
            grid_map = generate_map(rng, family, rows=args.size, cols=args.size, connectivity=8)  # type: ignore[arg-type]
            yield MapSet(
                f"generated {family}", f"{family}-{index}", grid_map, drawn_queries(grid_map, rng, args.queries)
            )
    if args.data:
        for family, names in (TUNING if stage == "tuning" else TEST).items():
            for name in names:
                grid_map = load_map(args.data / "maps" / family / f"{name}.map")
                scenarios = load_scenarios(args.data / "scenarios" / family / f"{name}.map.scen")
                longest = max(scenario.length for scenario in scenarios)
                usable = sorted(
                    (scenario for scenario in scenarios if scenario.length >= longest / 5),
                    key=lambda scenario: scenario.length,
                )
                chosen = [usable[int(i)] for i in np.linspace(0, len(usable) - 1, args.queries)]
                yield MapSet(f"MovingAI {family}", name, grid_map, [(each.start, each.goal) for each in chosen])


def drawn_queries(grid_map: GridMap, rng: np.random.Generator, count: int) -> list[tuple[Cell, Cell]]:
    """Pairs of cells between which there is a path at least as long as half the map's side."""
    free = [(row, col) for row, col in np.argwhere(grid_map.zones > 0).tolist()]
    queries: list[tuple[Cell, Cell]] = []
    while len(queries) < count:
        goal = free[int(rng.integers(len(free)))]
        costs = distance_field(grid_map, goal)
        starts = np.argwhere(np.isfinite(costs) & (costs >= grid_map.rows / 2))
        if len(starts):
            row, col = starts[int(rng.integers(len(starts)))].tolist()
            queries.append(((row, col), goal))
    return queries


# Planners ----------------------------------------------------------------------------------------------------------


def plan(name: str, problem: tuple[GridMap, Cell, Cell], settings: dict[str, Any], budget: int | None) -> PlanResult:
    if name == "A*":
        return astar(*problem)
    if name == "wA*(2)":
        return astar(*problem, weight=2.0, max_expansions=budget)
    if name == "R*":
        return rstar(*problem, rng=np.random.default_rng(0), max_expansions=budget, **settings)
    proposal = PROPOSALS[name.removeprefix("RStar2, ")]
    return rstar2(*problem, rng=np.random.default_rng(0), proposal=proposal, max_expansions=budget, **settings)


def draws(name: str, count: int) -> list[dict[str, Any]]:
    """A planner's defaults and different settings from its grid, so many in all and the same in every run."""
    rng, grid = np.random.default_rng(0), GRIDS[name]
    defaults: dict[str, Any] = R_STAR_DEFAULTS if name == "R*" else R_STAR_2_DEFAULTS
    found = {json.dumps(defaults): defaults}
    while len(found) < count:
        settings = {key: values[int(rng.integers(len(values)))] for key, values in grid.items()}
        found[json.dumps(settings)] = settings
    return list(found.values())


def tune(map_set: MapSet, args: argparse.Namespace) -> dict[str, list[list[float]]]:
    """For each planner and draw, the expansions of each query in those of A*."""
    optima = map_set.optima()
    table: dict[str, list[list[float]]] = {}
    for name in tqdm(GRIDS, leave=False, desc=map_set.name):
        table[name] = []
        for settings in draws(name, args.draws):
            ratios = []
            for (start, goal), optimum in zip(map_set.queries, optima, strict=True):
                budget = args.budget * optimum.expansions
                result = plan(name, (map_set.map, start, goal), settings, budget)
                ratios.append(result.expansions / optimum.expansions if result.path else float(args.budget))
            table[name].append(ratios)
    return table


def best_settings(tables: list[dict[str, list[list[float]]]], args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The draw of each planner with the smallest geometric mean over all tuning queries."""
    chosen = {}
    for name in GRIDS:
        logs = np.log(np.concatenate([np.array(table[name]) for table in tables], axis=1))
        chosen[name] = draws(name, args.draws)[int(logs.mean(axis=1).argmin())]
    return chosen


def compare(map_set: MapSet, chosen: dict[str, dict[str, Any]], args: argparse.Namespace) -> list[dict[str, Any]]:
    """One record for each query and planner."""
    records = []
    for number, ((start, goal), optimum) in enumerate(zip(map_set.queries, map_set.optima(), strict=True)):
        for name in PLANNERS:
            problem, budget = (map_set.map, start, goal), args.budget * optimum.expansions
            if number == 0:
                plan(name, problem, chosen.get(name, {}), budget)  # fills caches, compiles
            began = time.process_time()
            result = plan(name, problem, chosen.get(name, {}), budget)
            records.append(
                {
                    "family": map_set.family,
                    "planner": name,
                    "query": f"{map_set.name} {start} {goal}",
                    "ms": 1e3 * (time.process_time() - began),
                    "expansions": result.expansions / optimum.expansions if result.path else inf,
                    "absolute": result.expansions,
                    "suboptimality": result.cost / optimum.cost,
                    "bound": result.bound,
                }
            )
    return records


def kept(path: Path, compute: Callable[[], Any]) -> Any:
    """What the file holds, or else what is computed and then kept in it."""
    if not path.exists():
        text = json.dumps(compute())
        path.with_suffix(".part").write_text(text)
        path.with_suffix(".part").replace(path)
    return json.loads(path.read_text())


def planners(args: argparse.Namespace) -> list[str]:
    tuned = [
        kept(args.output_dir / f"tuning-{each.name}.json", lambda each=each: tune(each, args))
        for each in tqdm(list(map_sets("tuning", args)), desc="tuning")
    ]
    chosen = best_settings(tuned, args)
    records = [
        record
        for each in tqdm(list(map_sets("test", args)), desc="test")
        for record in kept(args.output_dir / f"test-{each.name}.json", lambda each=each: compare(each, chosen, args))
    ]
    settings = [[name, ", ".join(f"{key} {value:g}" for key, value in own.items())] for name, own in chosen.items()]
    if args.page:
        draw(args.page.with_suffix(".png"), records, PLANNERS)
    return [
        *PLANNERS_SAID,
        "",
        *tables(records, PLANNERS, args.budget),
        f"![expansions in those of A*]({args.page.stem if args.page else 'planning'}.png)",
        "",
        "Settings",
        *table(["planner", f"best of {args.draws}"], settings),
    ]


# Repair ------------------------------------------------------------------------------------------------------------


def changed(grid_map: GridMap, keep: set[Cell], rng: np.random.Generator) -> GridMap:
    """The map with three cells blocked or freed."""
    cells = [(int(rng.integers(grid_map.rows)), int(rng.integers(grid_map.cols))) for _ in range(3)]
    blocked = [cell for cell in cells if cell not in keep and grid_map.is_free(cell)]
    return grid_map.with_free(cells).with_blocked(blocked)


def repair(args: argparse.Namespace) -> list[str]:
    rows = []
    for number, family in enumerate(tqdm(GENERATED, desc="repair")):
        for epsilon, prove in ((1.0, True), (1.5, True), (2.0, True), (2.0, False)):
            path = args.output_dir / f"repair-{family}-{epsilon}-{prove}.json"
            sums = kept(path, lambda n=number, f=family, e=epsilon, p=prove: repaired(n, f, e, p))
            ours, afresh, exact, ratio = sums
            title = f"{epsilon:g}{', proved' if prove else ''}"
            rows.append(
                [family, title, f"{exact:,}", f"{afresh:,}", f"{ours:,}", f"{ours / afresh:.2f}", f"{ratio:.3f}"]
            )
    header = ["maps", "ε", "A* afresh", "RStar2 afresh", "RStar2 repaired", "repaired / afresh", "repaired, cost"]
    return [*REPAIR_SAID, *table(header, rows)]


def repaired(number: int, family: str, epsilon: float, prove: bool) -> tuple[int, int, int, float]:
    rng = np.random.default_rng([number, 99])
    problem: Problem = generate_problem(rng, family, rows=64, cols=64, connectivity=8, min_steps=60)  # type: ignore[arg-type]
    ends = problem.start, problem.goal
    planner = RStar2Planner(problem.map, *ends, rng=np.random.default_rng(0), distance=16)
    ours = afresh = exact = 0
    cost = cheapest = 0.0
    for _ in range(100):
        planner.update(changed(planner.graph.map, set(ends), rng))
        result = planner.plan(epsilon, prove=prove)
        new = RStar2Planner(planner.graph.map, *ends, rng=np.random.default_rng(0), distance=16)
        optimum = astar(planner.graph.map, *ends)
        ours, exact = ours + result.expansions, exact + optimum.expansions
        afresh += new.plan(epsilon, prove=prove).expansions
        if optimum.path:
            cost, cheapest = cost + result.cost, cheapest + optimum.cost
    return ours, afresh, exact, cost / cheapest


# Libraries ---------------------------------------------------------------------------------------------------------


def networkx_astar(grid_map: GridMap) -> Callable[[Cell, Cell], float]:
    import networkx

    graph = networkx.Graph()
    for row, col in np.argwhere(grid_map.zones > 0).tolist():
        graph.add_weighted_edges_from(((row, col), there, cost) for there, cost in grid_map.neighbours((row, col)))
    path_length = networkx.astar_path_length
    return lambda start, goal: float(path_length(graph, start, goal, heuristic=grid_map.heuristic))


def pathfinding_astar(grid_map: GridMap) -> Callable[[Cell, Cell], float]:
    from pathfinding.core.diagonal_movement import DiagonalMovement
    from pathfinding.core.grid import Grid
    from pathfinding.core.heuristic import octile
    from pathfinding.finder.a_star import AStarFinder

    grid = Grid(matrix=(grid_map.zones > 0).astype(int).tolist())

    def run(start: Cell, goal: Cell) -> float:
        grid.cleanup()
        finder = AStarFinder(heuristic=octile, diagonal_movement=DiagonalMovement.only_when_no_obstacle)
        path, _ = finder.find_path(grid.node(start[1], start[0]), grid.node(goal[1], goal[0]), grid)
        cells = [(node.x, node.y) for node in path]
        return sum(hypot(a[0] - b[0], a[1] - b[1]) for a, b in pairwise(cells))

    return run


def nano_astar_astar(grid_map: GridMap) -> Callable[[Cell, Cell], float]:
    import nano_astar

    grid = (grid_map.zones == 0).astype(np.uint8)
    return lambda start, goal: float(nano_astar.astar(grid, start, goal)[1])


LIBRARIES: dict[str, Callable[[GridMap], Callable[[Cell, Cell], float]]] = {
    "turngym": lambda grid_map: lambda start, goal: astar(grid_map, start, goal).cost,
    "nano-astar": nano_astar_astar,
    "networkx": networkx_astar,
    "pathfinding": pathfinding_astar,
}
RIVALS = ("turngym, plain Python", "nano-astar", "networkx", "pathfinding")


def libraries(args: argparse.Namespace) -> list[str]:
    sets = [each for each in map_sets("tuning", args) if each.name in ("AR0011SR", "random512-25-2", "lak303d")]
    sets += [each for each in map_sets("tuning", args) if each.name in ("caves-0", "random-0")]
    rows = [library_row(each, args) for each in tqdm(sets, desc="libraries")]
    return [*LIBRARIES_SAID, *table(["map", "turngym", *RIVALS, "lengths"], rows)]


def library_row(each: MapSet, args: argparse.Namespace) -> list[object]:
    """Our milliseconds, theirs with the ratio, and whether all lengths agree."""

    def measure() -> dict[str, Any]:
        times = {name: timed(make(each.map), each) for name, make in LIBRARIES.items()}
        return times | {"turngym, plain Python": in_plain_python(each, args)}

    times = kept(args.output_dir / f"libraries-{each.name}.json", measure)
    ours, lengths = map(np.array, times["turngym"])
    same = max(float(np.abs(np.array(other) / lengths - 1).max()) for _, other in times.values())
    cells: list[object] = [each.name, f"{np.median(ours):.2f}"]
    for name in RIVALS:
        theirs = np.array(times[name][0])
        cells.append(f"{np.median(theirs):.2f} ({np.median(theirs / ours):.2f})")
    return [*cells, "equal" if same < 1e-6 else f"differ by {same:.1%}"]


def timed(run: Callable[[Cell, Cell], float], each: MapSet) -> tuple[list[float], list[float]]:
    """Milliseconds (the best of three) and length of each query."""
    run(*each.queries[0])
    times, lengths = [], []
    for start, goal in each.queries:
        best = inf
        for _ in range(3):
            began = time.process_time()
            length = run(start, goal)
            best = min(best, time.process_time() - began)
        times.append(1e3 * best)
        lengths.append(length)
    return times, lengths


def in_plain_python(each: MapSet, args: argparse.Namespace) -> tuple[list[float], list[float]]:
    """`timed` for ours in a process in which numba is switched off."""
    command = [sys.executable, __file__, "--plain", each.name, "--size", str(args.size), "--queries", str(args.queries)]
    command += ["--data", str(args.data)] if args.data else []
    done = subprocess.run(
        command, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=True
    )
    times, lengths = json.loads(done.stdout)
    return times, lengths


PARTS = {"planners": planners, "repair": repair, "libraries": libraries}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder with maps/ and scenarios/ of MovingAI")
    parser.add_argument("--output-dir", type=Path, default=Path("runs/planning"))
    parser.add_argument("--page", type=Path, help="a Markdown file to write; the figure goes beside it")
    parser.add_argument(
        "--parts", nargs="+", default=["planners", "repair", "libraries"], choices=["planners", "repair", "libraries"]
    )
    parser.add_argument("--queries", type=int, default=12, help="queries for each map")
    parser.add_argument("--draws", type=int, default=16, help="settings tried for each planner")
    parser.add_argument("--budget", type=int, default=10, help="limit of expansions, in those of A*")
    parser.add_argument("--size", type=int, default=256, help="side of generated maps")
    parser.add_argument("--generated-maps", type=int, default=3, help="test maps for each generated family")
    parser.add_argument("--plain", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.plain:
        each = next(each for each in map_sets("tuning", args) if each.name == args.plain)
        print(json.dumps(timed(LIBRARIES["turngym"](each.map), each)))
        return
    args.output_dir.mkdir(parents=True, exist_ok=True)
    shown = {
        name: str(getattr(args, name)) for name in ("data", "queries", "draws", "budget", "size", "generated_maps")
    }
    if kept(args.output_dir / "arguments.json", lambda: shown) != shown:
        raise ValueError(f"{args.output_dir} holds results of other arguments: give another --output-dir")
    lines = [line for part in args.parts for line in PARTS[part](args)]
    print("\n".join(lines))
    if args.page:
        command = "python benchmarks/planning.py --data <folder of MovingAI> --page docs/results/planning.md"
        page = ["# Planners on grid maps", "", f"`{command}`", "", *lines, f"Machine: {machine()}, numba.", ""]
        save(args.page, "\n".join(page))


if __name__ == "__main__":
    main()
