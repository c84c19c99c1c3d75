"""Sokoban's solvers and generator measured and checked: optima of real levels, proofs, speed beside gym-sokoban.

    python benchmarks/sokoban_levels.py [--data FOLDER] [--parts optima any deadlocks generation] [--page FILE]

    optima      the fewest moves and pushes of Boxoban's levels and of Microban, beside an exhaustive search that shares
                no code with the solver, wherever it ends within `--states` states
    any         any solution of larger collections
    deadlocks   what the solver says of positions that have no solution, beside the exhaustive search, without numba
    generation  milliseconds to draw and prove a level, with numba and without, beside gym-sokoban's room generator

FOLDER holds `sokoban/` with collections of levels (see SETS); without it, the first two parts are left out. Every level
is written to the output folder as soon as it is done, so that a run that was broken off goes on where it was. What
needs no numba runs in a process of its own without it. Time is CPU time of the process, without compiling.
"""

import argparse
import importlib.util
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sokoban_brute_force import fewest
from sokoban_compiled_search import fewest_compiled
from tqdm import tqdm

from turngym.envs import grid
from turngym.envs.jit import COMPILED
from turngym.envs.sokoban.board import Level, Position, boxes_on_goals, is_solved, legal_moves, move
from turngym.envs.sokoban.env import SokobanEnv
from turngym.envs.sokoban.formats import parse_levels, parse_lurd, to_lurd, to_xsb
from turngym.envs.sokoban.generator import generate
from turngym.envs.sokoban.solver import MAX_EXPANSIONS, Solution, solve
from turngym.envs.sokoban.values import MAX_EXPANSIONS as OUTLOOK_EXPANSIONS

Row = dict[str, Any]
BOXOBAN = ("unfiltered_test_000", "unfiltered_train_000", "medium_valid_000", "hard_000")
SETS = {name: f"boxoban/{name}.txt" for name in BOXOBAN} | {
    "microban": "skinner/microban.txt",
    "microban_II": "skinner/microban_II_135.xsb",
    "sasquatch": "skinner/sasquatch.txt",
    "xsokoban": "xsokoban_90.xsb",
}
OPTIMA = ("microban", *BOXOBAN)
ANY = ("microban", "microban_II", "sasquatch", "xsokoban")
ROOMS = {
    "6x6, 1 box": (6, 1, 4, 12),
    "7x7, 2 boxes": (7, 2, 8, 24),
    "8x8, 3 boxes": (8, 3, 12, 40),
    "10x10, 4 boxes": (10, 4, 20, 60),
}
"""Size, boxes, fewest and most moves of generated levels; the first three are those of the registered ids."""
PEER = "gym-sokoban's 10x10, 4 boxes"


# Results -----------------------------------------------------------------------------------------------------------


def read(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def resume(file: Path, work: Callable[[Any], Row], inputs: Mapping[str, Any]) -> None:
    """Do what has no row in a file yet, and write each row as it comes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    done = {row["name"] for row in read(file)}
    with file.open("a") as out:
        for name, given in tqdm(inputs.items(), desc=file.stem, mininterval=5):
            if name not in done:
                out.write(json.dumps({"name": name} | work(given)) + "\n")
                out.flush()


def optima_file(arguments: argparse.Namespace, name: str) -> Path:
    return arguments.output_dir / f"optima-{name}-{arguments.limit}-{arguments.states}.jsonl"


def any_file(arguments: argparse.Namespace, name: str) -> Path:
    return arguments.output_dir / f"any-{name}-{arguments.any_limit}.jsonl"


def levels(data: Path, name: str) -> dict[str, Level]:
    named = parse_levels((data / "sokoban" / SETS[name]).read_text())
    return {f"{index} {title}": level for index, (title, level) in enumerate(named)}


def numbered(count: int) -> dict[str, int]:
    return {str(seed): seed for seed in range(count)}


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What comes out, and milliseconds of CPU time."""
    start = time.process_time()
    result = work()
    return result, round((time.process_time() - start) * 1e3, 3)


# Solutions ---------------------------------------------------------------------------------------------------------


def solved(level: Level, metric: Any, limit: int) -> Row:
    """A row of one solver."""
    solution, ms = timed(lambda: solve(level, metric=metric, max_expansions=limit))
    if solution.moves:
        replay(level, solution)
    return {
        "status": solution.status,
        "moves": len(solution.moves),
        "pushes": solution.pushes,
        "expansions": solution.expansions,
        "ms": ms,
    }


def replay(level: Level, solution: Solution) -> None:
    """Play a solution's LURD through the environment: it solves the level and earns exactly what is promised."""
    lurd = to_lurd(level, solution.moves)
    missing = len(level.boxes) - boxes_on_goals(level, level.start)
    env = SokobanEnv(max_turns=len(lurd))
    env.reset(seed=0)
    env.set_state(replace(env.get_state(), level=level, board=level.start))
    steps = [env.step(grid.DIRECTIONS[direction]) for direction in parse_lurd(level, lurd)]
    assert [terminated for _, _, terminated, _, _ in steps] == [False] * (len(steps) - 1) + [True], (
        "not solved at the end"
    )
    earned = sum(reward for _, reward, _, _, _ in steps)
    assert abs(earned - (10 + missing - len(lurd) / 10)) < 1e-9, f"{earned} earned by {len(lurd)} moves"
    assert sum(map(str.isupper, lurd)) == solution.pushes, "pushes of a solution are miscounted"


def optima_of(level: Level, limit: int, states: int) -> Row:
    """Fewest moves and pushes by the solver and by exhaustive search, which says None where it gave up."""
    xsb = to_xsb(level)
    return {
        metric: solved(level, metric, limit) | {"exhaustive": fewest_compiled(xsb, metric, states)}
        for metric in ("moves", "pushes")
    }


def optima(arguments: argparse.Namespace) -> None:
    work = partial(optima_of, limit=arguments.limit, states=arguments.states)
    for name in OPTIMA:
        resume(optima_file(arguments, name), work, levels(arguments.data, name))


def any_solution(arguments: argparse.Namespace) -> None:
    work = partial(solved, metric="any", limit=arguments.any_limit)
    for name in ANY:
        resume(any_file(arguments, name), work, levels(arguments.data, name))


# Positions without a solution --------------------------------------------------------------------------------------


def played(seed: int) -> Iterator[tuple[Level, Position]]:
    """Positions of a small level after random moves, one for each layout of boxes."""
    rng = np.random.default_rng(seed)
    size, boxes = ((6, 1), (6, 2), (6, 3), (7, 2), (7, 3))[seed % 5]
    level = generate(rng, size=size, boxes=boxes, min_moves=4, max_moves=30)
    position, met = level.start, {level.start.boxes}
    for _ in range(200):
        choices = legal_moves(level, position)
        position = move(level, position, choices[int(rng.integers(len(choices)))])
        if position.boxes not in met and not is_solved(level, position):
            met.add(position.boxes)
            yield level, position


def verdicts_of(seed: int) -> Row:
    """How many positions of one seed have no solution, and of how many all three ways to solve say what is true."""
    counts = {"positions": 0, "unsolvable": 0, "agreed": 0}
    for level, position in played(seed):
        hopeless = fewest(to_xsb(level, position), "moves", 1_000_000) == -1
        found = [solve(level, position, metric=metric).status for metric in ("moves", "pushes", "any")]
        counts["positions"] += 1
        counts["unsolvable"] += hopeless
        counts["agreed"] += found == (["unsolvable"] * 3 if hopeless else ["optimal", "optimal", "solved"])
    return counts


def deadlocks(arguments: argparse.Namespace) -> None:
    if COMPILED:
        without_numba("deadlocks", arguments)
    else:
        resume(arguments.output_dir / "deadlocks.jsonl", verdicts_of, numbered(arguments.seeds))


# Generation --------------------------------------------------------------------------------------------------------


def generated(seed: int, draw: Callable[[int], object] | None) -> Row:
    """One level of each kind, and one of gym-sokoban's, one after the other, so that a busy machine slows all."""
    row: Row = {}
    for kind, (size, boxes, least, most) in ROOMS.items():
        rng = np.random.default_rng(seed)
        level, ms = timed(partial(generate, rng, size=size, boxes=boxes, min_moves=least, max_moves=most))
        row[kind] = {"ms": ms, "moves": len(solve(level).moves)}
    if draw:
        row[PEER] = {"ms": timed(partial(draw, seed))[1]}
    return row


def gym_sokoban() -> Callable[[int], object] | None:
    """Draws a room as gym-sokoban's reset does; its package needs the old gym, the file with its generator does not."""
    package = importlib.util.find_spec("gym_sokoban")
    if package is None or not package.submodule_search_locations:
        return None
    file = Path(package.submodule_search_locations[0]) / "envs" / "room_utils.py"
    spec = importlib.util.spec_from_file_location("room_utils", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def draw(seed: int) -> object:
        random.seed(seed)
        np.random.seed(seed)  # its own source of luck
        while True:
            try:
                return module.generate_room(dim=(10, 10), num_steps=34, num_boxes=4)
            except RuntimeWarning:  # it found no level, and tries again
                continue

    return draw


def generation(arguments: argparse.Namespace) -> None:
    draw = gym_sokoban() if COMPILED else None
    generated(0, None)  # compiles

    def work(seed: int) -> Row:
        return generated(seed, draw if seed < arguments.peer_repeats else None)

    way = "numba" if COMPILED else "plain"
    resume(arguments.output_dir / f"generation-{way}.jsonl", work, numbered(arguments.repeats))
    if COMPILED:
        without_numba("generation", arguments)


def without_numba(part: str, arguments: argparse.Namespace) -> None:
    counts = [f"--seeds={arguments.seeds}", f"--repeats={arguments.repeats}", f"--output-dir={arguments.output_dir}"]
    command = [sys.executable, __file__, *counts, "--parts", part]
    subprocess.run(command, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, stdout=subprocess.DEVNULL, check=True)


PARTS = {"optima": optima, "any": any_solution, "deadlocks": deadlocks, "generation": generation}


# Page --------------------------------------------------------------------------------------------------------------


def spread(values: Iterable[float], digits: int = 0) -> str:
    """Median, 99th percentile and maximum."""
    ordered = sorted(values)
    tail = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return " / ".join(f"{value:,.{digits}f}" for value in (statistics.median(ordered), tail, ordered[-1]))


def optima_section(arguments: argparse.Namespace) -> str:
    table = []
    for name in OPTIMA:
        rows = read(optima_file(arguments, name))
        table += [optima_line(name, metric, [row[metric] for row in rows]) for metric in ("moves", "pushes") if rows]
    return OPTIMA_TEXT.format(limit=arguments.limit, states=arguments.states, rows="\n".join(table)) if table else ""


def optima_line(name: str, metric: str, results: list[Row]) -> str:
    proved = [result for result in results if result["status"] == "optimal"]
    compared = [result for result in results if result["exhaustive"] is not None]
    equal = sum(result["status"] == "optimal" and result["exhaustive"] == result[metric] for result in compared)
    return (
        f"| {name} | {metric} | {len(proved)} of {len(results)} | {spread(result[metric] for result in proved)} "
        f"| {spread((result['ms'] for result in proved), 1)} | {spread(result['expansions'] for result in proved)} "
        f"| {equal} of {len(compared)} |"
    )


def any_section(arguments: argparse.Namespace) -> str:
    table = []
    for name in ANY:
        rows = read(any_file(arguments, name))
        found = sum(row["status"] == "solved" for row in rows)
        if rows:
            table.append(f"| {name} | {found} of {len(rows)} | {spread((row['ms'] / 1e3 for row in rows), 2)} |")
    half = arguments.any_limit // 2
    return ANY_TEXT.format(half=half, rows="\n".join(table)) if table else ""


def deadlocks_section(arguments: argparse.Namespace) -> str:
    rows = read(arguments.output_dir / "deadlocks.jsonl")
    counts = {key: sum(row[key] for row in rows) for key in ("positions", "unsolvable", "agreed")}
    return DEADLOCKS_TEXT.format(seeds=len(rows), **counts) if rows else ""


def generation_section(arguments: argparse.Namespace) -> str:
    compiled, plain = (read(arguments.output_dir / f"generation-{way}.jsonl") for way in ("numba", "plain"))
    table = []
    for kind in (*ROOMS, PEER):
        times = [[row[kind]["ms"] for row in rows if kind in row] for rows in (compiled, plain)]
        moves = [row[kind]["moves"] for row in compiled if kind in ROOMS]
        shown = [spread(column, 1) if column else "" for column in times]
        if any(times):
            difficulty = f"{min(moves)} to {max(moves)}" if moves else "not known"
            table.append(f"| {kind} | {len(times[0])} | {shown[0]} | {shown[1]} | {difficulty} |")
    return GENERATION_TEXT.format(rows="\n".join(table)) if table else ""


def page(arguments: argparse.Namespace) -> str:
    sections = (optima_section, any_section, deadlocks_section, generation_section)
    return PAGE.format(python=platform.python_version()) + "".join(section(arguments) for section in sections)


PAGE = """# Sokoban: proofs and speed

`python benchmarks/sokoban_levels.py --data FOLDER` (AMD EPYC, 2 cores, no GPU, busy with other work; one process,
Python {python}, numba unless said). Times are CPU time; three figures are median / 99th percentile / maximum.
"""

OPTIMA_TEXT = """
## Optima

Levels of four of Boxoban's files (Guez et al. 2018; 1,000 in each) and of Microban by David W. Skinner (155), from the
first on, as many as the column *proved* counts. The solver's limit is {limit:,} expansions. *Exhaustive search* has no
bound, no pruning and no code in common with the solver (`benchmarks/sokoban_brute_force.py`, compiled in
`sokoban_compiled_search.py`); it gives up after {states:,} states.
Every solution was written as LURD, read back and played through the environment: each solved its level and earned
exactly 10, 1 for each box that was not home, and -0.1 a move.

| levels | fewest | proved | optimum | ms | expansions | equal to exhaustive search, where it ended |
|---|---|---|---|---|---|---|
{rows}
"""

ANY_TEXT = """
## Any solution

Greedy search of collections made by people, up to {half:,} expansions forwards and {half:,} backwards, which is what
the environment allows itself. Every solution was played as above. Microban II and Sasquatch are by David W. Skinner.

| levels | solved | seconds a level |
|---|---|---|
{rows}
"""

DEADLOCKS_TEXT = """
## Positions without a solution

In plain Python, without numba: {positions:,} positions were met by random moves on {seeds} generated levels (6x6 with 1
to 3 boxes, 7x7 with 2 and 3). Exhaustive search shows that {unsolvable:,} of them have no solution. All three ways to
solve (moves, pushes, any) say "unsolvable" of these and solve the others: right on {agreed:,} of {positions:,}.
"""

GENERATION_TEXT = """
## Generation

Milliseconds to draw a level and to prove its optimum, which must lie within bounds. gym-sokoban's time is that of its
own room generator, with its retries and without its drawing; it knows neither the optimum nor its difficulty.

| rooms | levels | ms with numba | ms without | fewest moves |
|---|---|---|---|---|
{rows}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of level files; needed for optima and any")
    parser.add_argument("--output-dir", type=Path, default=Path("runs/sokoban_levels"), help="where rows are kept")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--limit", type=int, default=MAX_EXPANSIONS, help="expansions of the exact solvers")
    parser.add_argument("--any-limit", type=int, default=OUTLOOK_EXPANSIONS, help="expansions of the greedy one")
    parser.add_argument("--states", type=int, default=2_000_000, help="states of the exhaustive search")
    parser.add_argument("--seeds", type=int, default=360, help="levels from which positions without a solution are met")
    parser.add_argument("--repeats", type=int, default=50, help="levels to generate of each kind")
    parser.add_argument(
        "--peer-repeats", type=int, default=6, help="levels of gym-sokoban, each of which takes many seconds"
    )
    parser.add_argument("--page", type=Path, help="write the tables to this file")
    arguments = parser.parse_args()
    for part in arguments.parts:
        if arguments.data or part not in ("optima", "any"):
            PARTS[part](arguments)
    text = page(arguments)
    print(text)
    if arguments.page:
        arguments.page.write_text(text)


if __name__ == "__main__":
    main()
