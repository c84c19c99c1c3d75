"""RStar2-v0: its rules by hand, what is charged, its oracle against all policies, and what is drawn."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from turngym.envs.path_planning.maps import GridMap, Problem
from turngym.envs.path_planning.waypoint_plans import to_go
from turngym.envs.path_planning.waypoint_rules import Board, Edge, Proposal, Rules, came_by
from turngym.envs.path_planning.waypoints import Level, RStar2Env
from turngym.envs.text_env import EnvState

TINY = {"size": 4, "min_steps": 4, "min_detour": 1.0, "family": "random", "distance": 2, "budget": 3}
ONE_SHOT = {"waypoints_per_turn": 8, "max_turns": 1, "family": "maze", "max_steps": 60}


def problem() -> Problem:
    """From one side of a wall to the other."""
    return Problem(GridMap.from_ascii("_#_#\n_#_#\n___#\n####"), (0, 0), (0, 2))


def on_wall(**arguments: Any) -> RStar2Env:
    """An environment at the start of a map of the test's choice: six steps lead around a wall."""
    env = RStar2Env(
        size=4, min_steps=2, min_detour=1.0, family="random", **{"distance": 2, "budget": 9, "max_turns": 9} | arguments
    )
    env.reset(seed=0)
    level = Level(problem(), 6.0, 6, 6)
    env.set_state(dataclasses.replace(env.get_state(), level=level, board=env._first_board(level), turns=0))
    return env


def play(env: RStar2Env, act: Callable[[], str | None]) -> tuple[list[float], list[dict[str, Any]]]:
    """Play on to the end: rewards and infos."""
    rewards, infos, over = [], [], False
    while not over:
        _, reward, terminated, truncated, info = env.step(str(act()))
        rewards.append(reward)
        infos.append(info)
        over = terminated or truncated
    return rewards, infos


# Rules -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ("0 1", "The waypoint is a wall."),
        ("4 0", "The waypoint is outside the map."),
        ("0 0", "The waypoint is where the search begins."),
        ("down", "I could not read a waypoint."),
        ("from 0 0 to 2 0", "I could not read a waypoint."),
        ("2 0 || 2 2", "At most 1 waypoint is allowed."),
    ],
)
def test_what_cannot_be_proposed_costs_the_penalty_and_a_turn(reply: str, told: str) -> None:
    env = on_wall()
    text, reward, *_, info = env.step(reply)
    assert text.startswith(told)
    assert (reward, info["action_is_valid"], info["avoid"], info["expansions"]) == (-0.1, False, None, 0)
    assert env.get_state().turns == 1


def test_distance() -> None:
    rules, start = Rules(1, 9), Board((0, 0))
    assert rules.proposals(problem(), start) == [((0, 0), (1, 0))]
    assert rules.flaw(problem(), start, Proposal((0, 0), (2, 0))) == "The waypoint is too far away."


def test_a_search_gives_up_after_its_budget() -> None:
    """The way around the wall has six steps: A* expands as many cells, and so needs a budget of six."""
    grid_map = problem().map
    for budget, found in ((5, False), (6, True)):
        edge = Rules(2, budget).search(grid_map, Proposal((0, 0), (0, 2)))
        assert (bool(edge.path), edge.expansions) == (found, budget)
    assert (edge.cost, len(edge.path)) == (6.0, 7)
    assert edge.evaluations == 2 + 3 + 3 + 4 + 4 + 4  # neighbours inside the map of the six cells, walls too


def test_an_edge_that_is_not_reached_is_avoid() -> None:
    env = on_wall(budget=5)
    text, _, terminated, _, info = env.step("goal")
    assert text.startswith("The waypoint is not reached.")
    assert text.endswith("from 0 0 to 0 2 X in 5")
    assert not terminated
    assert (info["avoid"], info["searches"], info["failures"], info["path"]) == (True, 1, 1, ())
    assert env.step("goal")[0].startswith("This edge is to be avoided.")


def test_the_anchor_moves_and_what_is_charged() -> None:
    env = on_wall(cost_price=0.6, expansion_price=0.3, waypoint_price=0.02)
    _, first, _, _, info = env.step("2 0")
    assert (info["cost"], info["expansions"], info["path"]) == (2.0, 2, ((0, 0), (1, 0), (2, 0)))
    assert first == pytest.approx(-0.2 - 0.1 - 0.02)
    _, again, *_ = env.step("0 0")  # known edges are one way
    _, along, *_, info = env.step("2 0")
    assert (info["searches"], info["avoid"]) == (0, None)
    assert along == pytest.approx(-0.2 - 0.02)  # without a search
    _, last, terminated, _, info = env.step("goal")
    assert terminated
    assert info["success"]
    assert last == pytest.approx(1 - 0.4 - 0.05 * info["expansions"] - 0.02)
    assert again == pytest.approx(first)


def test_expensive_edges_charge_every_step_that_is_looked_at() -> None:
    plain, dear = (on_wall(evaluation_cost=price).step("2 0") for price in (0.0, 0.5))
    assert plain[4]["evaluations"] == 2 + 3
    assert plain[1] - dear[1] == pytest.approx(0.5 * 5 * 0.5 / 6)


def test_one_shot() -> None:
    env = on_wall(waypoints_per_turn=3, max_turns=1)
    _, reward, terminated, _, info = env.step("2 0 || 2 2 || goal")
    assert terminated
    assert (info["moves"], info["searches"], info["expansions"], info["cost"]) == (3, 3, 6, 6.0)
    assert len(info["path"]) == 7
    assert reward == pytest.approx(1 - 0.5 - 0.25 - 0.06)
    env = on_wall(waypoints_per_turn=3, max_turns=1, budget=5)
    _, _, terminated, truncated, info = env.step("goal || 2 2")  # the first is not reached, the second not tried
    assert (terminated, truncated, info["searches"], info["success"]) == (False, True, 1, False)


def test_max_expansions_end_the_episode() -> None:
    env = on_wall(max_expansions=0.5)  # three of A*'s six
    text, _, terminated, _, info = env.step("goal")
    assert text.startswith("The waypoint is not reached. No budget is left.")
    assert text.endswith("budget 0")
    assert (terminated, info["success"], info["expansions"]) == (True, False, 3)


def test_tree_mode() -> None:
    env = on_wall(tree=True)
    env.step("from 0 0 to 1 0")
    assert env.step("from 2 0 to 2 2")[0].startswith("A search must begin at a waypoint that was reached.")
    _, _, _, _, info = env.step("from 0 0 to 2 0")
    assert (info["path"], info["cost"]) == ((), 0.0)  # all of it comes with the goal
    assert env.step("from 0 0 to 2 0")[0].startswith("This edge is known.")
    _, _, _, _, info = env.step("from 1 0 to 2 2")
    assert (info["avoid"], info["searches"]) == (False, 1)
    _, _, terminated, _, info = env.step("from 2 2 to goal")
    assert terminated
    assert (info["cost"], len(info["path"])) == (6.0, 7)


def test_the_cheapest_chain_of_edges_counts() -> None:
    long = Edge((0, 0), (0, 2), ((0, 0), (1, 0), (1, 1), (1, 2), (0, 2)), 4.0, 9, 9)
    short = [Edge((0, 0), (0, 1), ((0, 0), (0, 1)), 1.0, 1, 1), Edge((0, 1), (0, 2), ((0, 1), (0, 2)), 1.0, 1, 1)]
    assert came_by((0, 0), [long, *short])[0, 2] == (2.0, ((0, 0), (0, 1), (0, 2)))


# Values ------------------------------------------------------------------------------------------------------------


class BruteForce:
    """The best sum of rewards over all replies, by trying them in the environment itself."""

    def __init__(self, env: RStar2Env) -> None:
        self._env, self._known = env, dict[Any, float]()

    def value(self, state: EnvState) -> float:
        """What the state is worth."""
        key = state.board.anchor, frozenset(state.board.edges), state.turns
        if key not in self._known:
            self._env.set_state(state)
            worths = [0.0]
            for reply in ["?", *(self._env.legal_actions() or ())]:
                self._env.set_state(state)
                _, reward, terminated, truncated, _ = self._env.step(reply)
                over = terminated or truncated
                worths.append(reward + (0.0 if over else self.value(self._env.get_state())))
            self._known[key] = max(worths[1:])
        return self._known[key]


@pytest.mark.parametrize("shaping", [False, True])
@pytest.mark.parametrize(
    "variant",
    [{}, {"tree": True}, {"evaluation_cost": 0.1}, {"connectivity": 8, "min_steps": 3}, {"waypoint_price": 0.0}],
    ids=str,
)
def test_no_policy_beats_the_oracle(variant: dict[str, Any], shaping: bool) -> None:
    env, exact = RStar2Env(**{**TINY, **variant}, shaping=shaping, max_turns=3), 0
    for seed in range(3):
        env.reset(seed=seed)
        start, value = env.get_state(), env.oracle_value()
        if value is None:
            continue
        exact += 1
        assert value == pytest.approx(BruteForce(env).value(start))
        env.set_state(start)
        assert sum(play(env, env.oracle_action)[0]) == pytest.approx(value)
    assert exact


@pytest.mark.parametrize(
    "variant", [{}, {"tree": True}, {"connectivity": 8, "family": "caves"}, {"max_expansions": 0.5}], ids=str
)
def test_shaping_telescopes(variant: dict[str, Any]) -> None:
    """Whatever is replied, it adds the same to the sum: nothing but -Φ of the start, where the episode terminates."""
    plain, shaped = (RStar2Env(**variant, shaping=shaping, max_turns=40) for shaping in (False, True))
    ended = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        plain.reset(seed=seed)
        shaped.reset(seed=seed)
        added, over = 0.0, False
        while not over:
            reply = plain.random_action(rng) if rng.random() < 0.7 else plain.oracle_action() or "?"
            (_, reward, terminated, truncated, _), other = plain.step(reply), shaped.step(reply)
            added, over = added + other[1] - reward, terminated or truncated
            assert other[2:4] == (terminated, truncated)
        level, board = shaped._level, shaped._board
        nearest = min(to_go(level.problem)[cell] for cell in shaped._rules.origins(level.problem, board))
        assert added == pytest.approx(1.0 if terminated else 1.0 - nearest / level.optimum)
        ended += terminated
    assert ended


@pytest.mark.parametrize(
    "variant", [{}, {"tree": True}, {"waypoints_per_turn": 3}, {"family": "terrain"}, ONE_SHOT], ids=str
)
def test_oracle_and_teacher_arrive(variant: dict[str, Any]) -> None:
    env = RStar2Env(**variant)
    for seed in range(6):
        totals = []
        for teacher in (env.oracle_action, env.rstar2_action):
            env.reset(seed=seed)
            value = env.oracle_value()
            rewards, infos = play(env, teacher)
            totals.append(sum(rewards))
            assert infos[-1]["success"]
            assert not any(info["failures"] for info in infos)
        assert value is None or totals == [pytest.approx(value), min(totals)]
        assert env.oracle_action() is None
        assert env.rstar2_action() is None


# States, and what is drawn -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", [{}, {"tree": True}, {"max_expansions": 3.0, "waypoints_per_turn": 2}], ids=str)
def test_a_state_brings_everything_back_and_seeds_tell_all(variant: dict[str, Any]) -> None:
    env, twin = RStar2Env(**variant), RStar2Env(**variant)
    rng = np.random.default_rng(1)
    assert env.reset(seed=5)[0] == twin.reset(seed=5)[0]
    first = env.random_action(rng)
    assert env.step(first) == twin.step(first)
    state = env.get_state()
    rest = [env.random_action(rng)]
    ends = []
    for each in (env, env, twin):
        each.set_state(state)
        ends.append([each.step(reply) for reply in rest])
    assert ends[0] == ends[1] == ends[2]


def test_drawings_show_path_waypoints_avoid_and_heat() -> None:
    env = on_wall(render_mode="rgb_array", budget=5)
    before, plain = env.render(), env.drawn()
    env.step("goal")
    avoided = env._overlay()
    assert avoided.avoid == (((0, 0), (0, 2)),)
    assert avoided.expansions is not None
    assert avoided.expansions.sum() == 5
    env.step("2 0")
    overlay = env._overlay()
    assert overlay.path == ((0, 0), (1, 0), (2, 0))
    assert overlay.waypoints == ((0, 2), (2, 0))
    after = env.render()
    assert isinstance(before, np.ndarray)
    assert isinstance(after, np.ndarray)
    assert (before.dtype, before.shape) == (np.uint8, after.shape)
    assert (before != after).any()
    assert env.drawn() != plain


def test_arrays_mark_the_waypoints_that_were_reached() -> None:
    env = on_wall()
    env.step("2 0")
    marked = env.as_array()
    env.step("2 2")
    assert (marked.shape, (env.as_array() != marked).sum()) == ((4, 4), 2)  # the anchor went, a waypoint stays


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"waypoints_per_turn": 0}, "waypoints_per_turn must be between 1 and 32"),
        ({"max_expansions": 0}, "max_expansions must be above 0"),
        ({"expansion_price": -1}, "expansion_price must be at least 0"),
        ({"distance": 0}, "distance must be at least 1"),
        ({"weight": 0.5}, "weight must be at least 1"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        RStar2Env(**arguments)
