"""Text forms: what is rendered is read back, costs as many tokens as it says, and shows nothing that was not seen."""

import itertools
from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from turngym.envs.path_planning.generators import FAMILIES, generate_map, generate_problem
from turngym.envs.path_planning.maps import Cell, GridMap
from turngym.envs.path_planning.overview import Overview
from turngym.envs.path_planning.roads import RoadMap, Roads
from turngym.envs.path_planning.text_forms import FORMS, LEGENDS, Form, choose_form, parse, render
from turngym.envs.path_planning.view import MARKS, View, count_tokens

LOSSLESS: tuple[Form, ...] = ("grid", "coordinates", "runs")
PLENTY = 10**6


@st.composite
def views(draw: st.DrawFn, *, partial: bool = True) -> View:
    """Small maps with terrain and water, and whatever may stand on them, walls included."""
    shape = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    glyphs = draw(arrays("U1", shape, elements=st.sampled_from(list("_____##-359"))))
    rules = {
        "connectivity": draw(st.sampled_from([4, 8])),
        "corners": draw(st.sampled_from(["both_free", "one_free", "always"])),
        "cell_size": draw(st.sampled_from([1.0, 0.25])),
    }
    cells = st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1))
    seen = draw(st.none() | arrays(bool, shape)) if partial else None
    marks = draw(st.dictionaries(cells, st.sampled_from(MARKS), max_size=3))
    grid_map = GridMap.from_ascii("\n".join("".join(row) for row in glyphs), **rules)
    return View(grid_map, draw(cells), draw(cells), seen, marks)


def rules_of(view: View) -> dict[str, Any]:
    return {name: getattr(view.map, name) for name in ("connectivity", "corners", "cell_size")}


def costs_from(steps: Callable[[Cell], list[tuple[Cell, float]]], source: Cell) -> dict[Cell, float]:
    """Bellman and Ford's way, round by round."""
    costs, front = {source: 0.0}, {source}
    while front:
        later = set()
        for cell in front:
            for there, cost in steps(cell):
                if costs[cell] + cost < costs.get(there, inf) - 1e-9:
                    costs[there] = costs[cell] + cost
                    later.add(there)
        front = later
    return costs


# Forms by hand -----------------------------------------------------------------------------------------------------

SMALL = View(
    GridMap.from_ascii("_ # _ _ _\n_ # 3 # _\n_ _ _ # _"), player=(1, 2), goal=(0, 4), marks={(2, 1): "O", (2, 0): "*"}
)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("grid", "_ # _ _ G\n_ # P # _\n* O _ # _"),
        ("coordinates", "map 3 5 of _\n# at 0 1 | 1 1 | 1 3 | 2 3\n3 at 1 2"),
        ("runs", "row 0 _ 1 # 1 _ 3\nrow 1 _ 1 # 1 3 1 # 1 _ 1\nrow 2 _ 3 # 1 _ 1"),
        (
            "roads",
            "from 0 0 | Down 2 to 2 0\n"
            "from 0 4 | Left 4 to 1 2 | Down 2 to 2 4\n"
            "from 1 2 | Down 3 to 2 1 | Up 4 to 0 4\n"
            "from 2 0 | Right 1 to 2 1 | Up 2 to 0 0\n"
            "from 2 1 | Left 1 to 2 0 | Right 3 to 1 2\n"
            "from 2 4 | Up 2 to 0 4",
        ),
    ],
)
def test_forms_by_hand(form: Form, text: str) -> None:
    assert render(SMALL, form) == "P 1 2 on 3 G 0 4 O 2 1 * 2 0\n" + text
    assert LEGENDS[form]


def test_a_partial_view_by_hand() -> None:
    """Water, an unseen corner, player and goal on one cell, rows that are alike, frontiers with a question mark."""
    seen = np.array([[True] * 3, [True] * 3, [True, True, False]])
    view = View(GridMap.from_ascii("__-\n__-\n___"), (0, 0), (0, 0), seen)
    first = "P 0 0 G 0 0\n"
    assert render(view, "grid") == first + "√ _ -\n_ _ -\n_ _ ?"
    assert render(view, "coordinates") == first + "map 3 3 of _\n- at 0 2 | 1 2\n? at 2 2"
    assert render(view, "runs") == first + "row 0 to 1 _ 2 - 1\nrow 2 _ 2 ? 1"
    assert render(view, "roads").split("\n")[2:] == [
        "from 1 0 | Down 2 to 2 1 | Right 1 to 1 1 | Up 1 to 0 0",
        "from 1 1 ? | Left 1 to 1 0 | Down 1 to 2 1 | Up 2 to 0 0",
        "from 2 1 ? | Left 2 to 1 0 | Up 1 to 1 1",
    ]


def test_an_overview_by_hand() -> None:
    """Blocks of four cells a side, then of two: free, a quarter free, half free; player and goal cover theirs."""
    grid_map = GridMap.from_ascii("______##\n________\n__#_##__\n__##_#__\n___###__\n___#_#__\n________\n________")
    text = render(View(grid_map, (7, 1), (1, 7)), "overview", max_tokens=40)
    assert text.split("\n") == [
        "P 7 1 G 1 7",
        "map 8 8 each 4",
        ". G",
        "P .",
        "from 5 0",
        "_ _ _",
        "_ _ _",
        "_ P _",
    ]
    fine = render(View(grid_map, (7, 1), (1, 7)), "overview", max_tokens=80).split("\n")
    assert fine[1:6] == ["map 8 8 each 2", "_ _ _ G", "_ + + _", "_ . + _", "P _ _ _"]


def test_the_window_has_the_player_in_its_middle() -> None:
    view = View(GridMap(np.ones((9, 9), bool)), (4, 5), (0, 0))
    assert render(view, "overview", max_tokens=40).split("\n")[-4:] == ["from 3 4", "_ _ _", "_ P _", "_ _ _"]


# Round trips -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", LOSSLESS)
@given(view=views())
def test_round_trip(form: Form, view: View) -> None:
    assert parse(render(view, form, max_tokens=PLENTY), form, **rules_of(view)) == view


@pytest.mark.parametrize("form", ["roads", "overview"])
@given(view=views())
def test_round_trip_of_what_is_stated(form: Form, view: View) -> None:
    text = render(view, form, max_tokens=PLENTY)
    stated = parse(text, form)
    first = text.split("\n")[0]
    if isinstance(stated, RoadMap):
        assert text == _written(first, stated)
    else:
        assert isinstance(stated, Overview)
        assert text == f"{first}\n{stated.text()}"
    assert stated.header.player == view.player
    assert stated.header.goal == view.goal
    assert stated.header.marks == view.marks


def _written(first: str, stated: RoadMap) -> str:
    """The road form's text, written down a second time."""
    lines = [first]
    for (row, col), ways in stated.roads.items():
        line = f"from {row} {col}" + (" ?" if (row, col) in stated.frontier else "")
        for name, ((down, across), cost) in ways.items():
            line += f" | {name} {np.format_float_positional(cost, trim='-')} to {down} {across}"
        lines.append(line)
    return "\n".join(lines)


@settings(max_examples=60)
@given(views(), st.integers(0, 2**32))
def test_nothing_unseen_is_shown(view: View, seed: int) -> None:
    """Two maps that differ in unseen cells alone look the same in every form."""
    if view.seen is None:
        return
    other = np.random.default_rng(seed).choice([0, 1, 2], view.map.zones.shape)
    changed = GridMap(
        np.where(view.seen, view.map.zones, other),
        np.where(view.seen, view.map.costs, 1.0),
        view.map.connectivity,
        view.map.corners,
        view.map.cell_size,
    )
    twin = View(changed, view.player, view.goal, view.seen, view.marks)
    assert twin == view
    for form in FORMS:
        assert render(twin, form, max_tokens=PLENTY) == render(view, form, max_tokens=PLENTY)


@settings(max_examples=60)
@given(views())
def test_views_are_equal_where_they_look_the_same(view: View) -> None:
    row, col = view.player
    changed = (
        view.map.with_free([view.player]) if not view.map.is_free(view.player) else view.map.with_blocked([(row, col)])
    )
    shown = view.seen is None or view.seen[view.player]
    assert (View(changed, view.player, view.goal, view.seen, view.marks) != view) == shown
    assert View(view.map, view.player, view.goal, np.zeros(view.map.zones.shape, bool), view.marks) != view or (
        view.seen is not None and not view.seen.any()
    )
    assert View(view.map, view.player, view.goal, view.seen, {}) != view or not view.marks
    assert view != "a view"


# Roads -------------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(views(partial=False))
def test_roads_keep_all_distances(view: View) -> None:
    """Distances along the roads are those of the map, and the nodes are what can be reached and has not two steps."""
    stated = parse(render(view, "roads", max_tokens=PLENTY), "roads")
    assert isinstance(stated, RoadMap)
    roads: Roads = stated.roads
    costs = costs_from(lambda cell: list(view.map.neighbours(cell)), view.player)
    along = costs_from(lambda cell: list(roads[cell].values()), view.player)
    things = {view.player, view.goal, *view.marks}
    nodes = {cell for cell in costs if cell in things or len(list(view.map.neighbours(cell))) != 2}
    assert set(along) == set(roads) == nodes
    for cell in nodes:
        assert along[cell] == pytest.approx(costs[cell], abs=0.01 * len(costs) + 1e-9)
    assert not stated.frontier


def test_a_ring_with_two_ways_to_the_goal() -> None:
    view = View(GridMap.from_ascii("____\n_##_\n____"), (0, 0), (2, 2))
    assert render(view, "roads").split("\n")[1:] == [
        "from 0 0 | Down 4 to 2 2 | Right 6 to 2 2",
        "from 2 2 | Left 4 to 0 0 | Right 6 to 0 0",
    ]


def test_diagonal_roads() -> None:
    view = View(GridMap.from_ascii("_#_#_\n#_#_#", connectivity=8, corners="always"), (0, 0), (0, 4))
    assert render(view, "roads").split("\n")[1:] == [
        "from 0 0 | Down Right 5.66 to 0 4",
        "from 0 4 | Down Left 5.66 to 0 0",
    ]
    stated = parse(render(view, "roads"), "roads")
    assert isinstance(stated, RoadMap)
    assert stated.roads[0, 0] == {"Down Right": ((0, 4), 5.66)}


# Overviews ---------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(views(), st.integers(30, 120))
def test_overviews_state_what_is_there(view: View, max_tokens: int) -> None:
    try:
        text = render(view, "overview", max_tokens=max_tokens)
    except ValueError as error:
        assert "max_tokens must be at least" in str(error)  # noqa: PT017
        return
    assert count_tokens(text) <= max_tokens
    stated = parse(text, "overview")
    assert isinstance(stated, Overview)
    assert stated.shape == view.map.zones.shape
    seen = np.ones(stated.shape, bool) if view.seen is None else view.seen
    side = stated.block
    for (top, left), glyph in np.ndenumerate(np.array([list(row) for row in stated.blocks])):
        part = slice(top * side, (top + 1) * side), slice(left * side, (left + 1) * side)
        free = (view.map.zones != 0)[part][seen[part]]
        places = {(view.player[0] // side, view.player[1] // side): "P"}
        goal = (view.goal[0] // side, view.goal[1] // side)
        places[goal] = "√" if goal in places else "G"
        if (top, left) in places:
            assert glyph == places[top, left]
        elif not free.size:
            assert glyph == "?"
        else:
            assert glyph == ("#" if not free.any() else "_" if free.all() else "." if free.mean() >= 0.5 else "+")
    grid = [row.split(" ") for row in render(view, "grid").split("\n")[1:]]
    (top, left), height, width = stated.corner, len(stated.window), len(stated.window[0])
    assert list(stated.window) == ["".join(row[left : left + width]) for row in grid[top : top + height]]
    assert top <= view.player[0] < top + height
    assert left <= view.player[1] < left + width


def test_the_overview_fills_its_budget() -> None:
    grid_map = generate_map(np.random.default_rng(0), "city", rows=128, cols=96)
    for budget in (64, 128, 256, 512, 1024, 2048):
        spent = count_tokens(render(View(grid_map, (64, 30), (3, 3)), "overview", max_tokens=budget))
        assert 0.75 * budget <= spent <= budget


# Budgets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("connectivity", [4, 8])
def test_tokens_are_those_of_the_tiny_model(family: Any, connectivity: Any) -> None:
    pytest.importorskip("transformers")
    from turngym.agents.tiny import build_tokenizer

    tokenizer = build_tokenizer()
    rng = np.random.default_rng(1)
    for side in (6, 11):
        problem = generate_problem(rng, family, rows=side, cols=side, connectivity=connectivity)
        seen = rng.random((side, side)) < 0.7
        for view in (
            View(problem.map, problem.start, problem.goal),
            View(problem.map, problem.goal, problem.goal, seen, {(0, 3): "*", (side - 1, 4): "O"}),
        ):
            for form in FORMS:
                text = render(view, form, max_tokens=PLENTY if form != "overview" else 150)
                spared = 2 * text.count(" √")
                assert len(tokenizer.encode(text)) == count_tokens(text) - spared, text


@settings(max_examples=60)
@given(views(partial=False), st.integers(70, 200))
def test_the_chosen_form_fits_wherever_player_and_goal_are(view: View, max_tokens: int) -> None:
    form = choose_form(view.map, max_tokens, marks=len(view.marks))
    assert count_tokens(render(view, form, max_tokens=max_tokens)) <= max_tokens


def test_roads_that_just_fit_do_so_wherever_player_and_goal_are() -> None:
    """Most places on a winding corridor are no node until somebody stands there."""
    snake = np.ones((41, 41), bool)
    snake[1::4, :-1] = snake[3::4, 1:] = False
    grid_map = GridMap(snake)
    budget = next(budget for budget in range(50, 1000, 5) if choose_form(grid_map, budget) == "roads")
    free = [(row, col) for row, col in np.argwhere(grid_map.zones == 1).tolist()]
    rng = np.random.default_rng(0)
    for _ in range(30):
        player, goal = (free[int(rng.integers(len(free)))] for _ in range(2))
        render(View(grid_map, player, goal), "roads", max_tokens=budget)


@settings(max_examples=60)
@given(views(), st.integers(100, 200))
def test_the_chosen_form_fits_with_a_sensor(view: View, max_tokens: int) -> None:
    form = choose_form(view.map, max_tokens, marks=len(view.marks), sensor=True)
    assert form in ("grid", "overview")
    assert count_tokens(render(view, form, max_tokens=max_tokens)) <= max_tokens


def test_each_form_is_chosen_where_it_is_good() -> None:
    """A small map, a large map of few lines, one of few walls, corridors that wind, and noise."""
    lines, walls = np.ones((60, 60), bool), np.ones((60, 60), bool)
    lines[::7, :50] = False
    walls[[3, 17, 40], [9, 50, 30]] = False
    snake = np.ones((41, 41), bool)
    snake[1::4, :-1] = snake[3::4, 1:] = False
    assert choose_form(GridMap(lines[:20, :20]), 512) == "grid"
    assert choose_form(GridMap(lines), 512) == "runs"
    assert choose_form(GridMap(walls), 512) == "coordinates"
    assert choose_form(GridMap(snake), 200) == "roads"
    assert choose_form(generate_map(np.random.default_rng(0), "random", rows=60, cols=60), 512) == "overview"
    assert choose_form(GridMap(lines), 512, sensor=True) == "overview"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_huge_map_has_a_usable_form(family: Any) -> None:
    """All of a 512 by 512 map in a thousand tokens: whole, or 21 by 21 blocks and a window of 21 by 21 cells."""
    grid_map = generate_map(np.random.default_rng(0), family, rows=512, cols=512)
    form = choose_form(grid_map, 1024)
    text = render(View(grid_map, (250, 3), (7, 500)), form, max_tokens=1024)
    assert count_tokens(text) <= 1024
    stated = parse(text, form)
    if isinstance(stated, Overview):
        assert len(stated.blocks) >= 21
        assert len(stated.window) >= 21
    else:
        assert stated == View(grid_map, (250, 3), (7, 500))


# Misuse ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", ["", "P 0 0", "G 0 0 P 0 1\n_ _", "P 0 0 G 0 9\n_ x", "Up", "P 0 0 G 0 1\nUp 3 4"])
def test_what_is_no_text_of_a_form(form: Form, text: str) -> None:
    with pytest.raises(ValueError, match=f"not a text of the form {form}"):
        parse(text, form)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: render(SMALL, "grid", max_tokens=20), "max_tokens must be at least 32 for this grid text, got 20"),
        (lambda: render(SMALL, "overview", max_tokens=20), "max_tokens must be at least .* for an overview"),
        (lambda: render(SMALL, "song"), "form must be one of grid, coordinates"),  # type: ignore[arg-type]
        (lambda: View(SMALL.map, (3, 0), (0, 0)), r"inside a map of 3 by 5, got \(3, 0\)"),
        (lambda: View(SMALL.map, (0, 0), (0, 0), marks={(0, 0): "#"}), r"among \* \+ X O \$, got \['#'\]"),
        (lambda: View(SMALL.map, (0, 0), (0, 0), np.ones((2, 2), bool)), "shape of the map"),
        (lambda: render(View(GridMap.from_array([[3, 3]]), (0, 0), (0, 1)), "grid"), "have a glyph"),
    ],
)
def test_misuse(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_glyphs_never_run_together() -> None:
    """Every cell is an item of its own, so that every vocabulary has one token for it."""
    for form, view in itertools.product(("grid", "runs", "coordinates"), [SMALL]):
        items = render(view, form).split()  # type: ignore[arg-type]
        assert all(item.isalnum() or len(item) == 1 for item in items)
