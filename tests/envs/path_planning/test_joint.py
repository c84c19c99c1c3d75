"""JointPathPlanning: replies that move everybody, what they cost, and an oracle that is exact in the turns left."""

from dataclasses import replace
from functools import cache
from itertools import product
from math import inf
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.agents.scripted import OracleAgent
from turngym.envs.actions import ParseError
from turngym.envs.path_planning import fleet_text
from turngym.envs.path_planning.cbs import cbs
from turngym.envs.path_planning.fleet import MOVES, Cells, Conflict, Fleet, advance
from turngym.envs.path_planning.fleet_levels import FleetLevel
from turngym.envs.path_planning.joint import JointPathPlanningEnv
from turngym.envs.path_planning.maps import GridMap
from turngym.envs.splits import SPLITS

BAY = Fleet(GridMap.from_ascii("_____\n##_##"), ((0, 1), (0, 3)), ((0, 3), (0, 1)))
CROSSING = Fleet(GridMap.from_ascii("#_#\n___\n#_#"), ((1, 0), (0, 1)), ((1, 2), (2, 1)))
SMALL = (
    CROSSING,
    Fleet(GridMap.from_ascii("___\n_#_\n___"), ((0, 0), (0, 2)), ((0, 2), (0, 0))),
    Fleet(GridMap.from_ascii("____\n#_##"), ((0, 1), (0, 3)), ((0, 1), (0, 0))),
    Fleet(GridMap.from_ascii("__\n__"), ((0, 0), (0, 1), (1, 1)), ((1, 1), (1, 0), (0, 0))),
)


def make(**arguments: Any) -> JointPathPlanningEnv:
    env = gymnasium.make("JointPathPlanning-v0", **arguments).unwrapped
    assert isinstance(env, JointPathPlanningEnv)
    return env


# Replies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a Up | b Stay", "b Stay | a Up", " A  up|B\tSTAY \n", "a up|b stay"])
def test_replies_in_any_order_and_case(text: str) -> None:
    assert fleet_text.parse(text, 2) == (3, 4)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "I could not read a move."),
        ("Up | Stay", "I could not read a move."),
        ("a Up | b Fly", "I could not read a move."),
        ("a Up || b Up", "I could not read a move."),
        ("a Up | c Up", "I could not read a move."),
        ("a Up b Up", "I could not read a move."),
        ("go a Up | b Up", "I could not read a move."),
        ("a Up |", "I could not read a move."),
        ("a Up", "Every agent needs one move."),
        ("a Up | a Up", "Every agent needs one move."),
        ("a Up | b Up | b Up", "Every agent needs one move."),
        ("a Up | b Up | c", "I could not read a move."),
    ],
)
def test_all_or_nothing(text: str, reason: str) -> None:
    assert fleet_text.parse(text, 2) == ParseError(reason)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8))
def test_what_is_spelled_is_read_back(moves: list[int]) -> None:
    assert fleet_text.parse(fleet_text.spell(moves), len(moves)) == tuple(moves)


def test_random_actions_reach_every_reply() -> None:
    env, rng = make(agents=2), np.random.default_rng(0)
    env.reset(seed=0)
    legal = env.legal_actions()
    assert legal is not None
    assert (len(legal), len(set(legal))) == (25, 25)
    assert {env.random_action(rng) for _ in range(500)} == set(legal)
    assert make(agents=5, size=8).legal_actions() is None


# What is told ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conflict", "words"),
    [
        (Conflict("wall", (2,), (0, 0)), "The wall holds c back."),
        (Conflict("cell", (0, 1), (2, 3)), "a and b want 2 3 and stay."),
        (Conflict("cell", (0, 1, 3), (2, 3)), "a, b and d want 2 3 and stay."),
        (Conflict("swap", (0, 2), (2, 3)), "a and c cannot swap."),
        (Conflict("held", (2, 0), (2, 3)), "a holds c back."),
    ],
)
def test_conflicts_in_words(conflict: Conflict, words: str) -> None:
    assert fleet_text.tell([conflict]) == words
    assert fleet_text.tell([conflict, conflict]) == f"{words} {words}"


def test_the_board_tells_what_agents_cover() -> None:
    cells = (0, 3), (1, 2)
    assert fleet_text.describe(BAY, cells) == "a 0 3 A 0 3 | b 1 2 B 0 1\n_ B _ a _\n# # b # #"
    assert fleet_text.numbered(BAY, cells).tolist() == [
        [[0, 0, 0, 0, 0], [1, 1, 0, 1, 1]],
        [[0, 0, 0, 1, 0], [0, 0, 2, 0, 0]],
        [[0, 2, 0, 1, 0], [0, 0, 0, 0, 0]],
    ]
    assert fleet_text.describe(BAY, ((0, 1), (0, 4))) != fleet_text.describe(BAY, ((0, 4), (0, 1)))


def test_the_picture_shows_agents_and_the_goals_under_them() -> None:
    image = fleet_text.picture(BAY, ((0, 3), (0, 0)))
    assert image.shape == (64, 160, 3)
    middle, edge = image[16, 96 + 16].tolist(), image[3, 96 + 3].tolist()
    assert middle == [220, 60, 50]
    assert min(edge) > 150
    assert edge not in (middle, image[3, 3].tolist())


# Rewards -----------------------------------------------------------------------------------------------------------


def play(env: JointPathPlanningEnv, *replies: str) -> list[tuple[float, bool, bool, dict[str, Any], str]]:
    turns = []
    for reply in replies:
        observation, reward, terminated, truncated, info = env.step(reply)
        turns.append((reward, terminated, truncated, info, observation.split("\n")[0]))
    return turns


def test_a_turn_costs_one_for_each_agent_but_those_at_rest() -> None:
    env = make(fleet=CROSSING)
    _, info = env.reset(seed=0)
    assert (env.optimal_cost, info["oracle_steps"], env.turns_left) == (5, 3, 6)
    both, out_of_order, last, done = play(
        env, "a Right | b Down", "b Stay | a Right", "b Down | a Right", "b Down|a Stay"
    )
    assert (both[0], both[4]) == (-2 / 5, "a and b want 1 1 and stay.")
    assert (out_of_order[0], last[0]) == (-2 / 5, -2 / 5)
    assert last[3]["moves"] == 1
    assert done[:3] == (1 - 1 / 5, True, False)
    assert done[3]["success"]
    assert done[4] == "All agents are on their goals."


def test_to_leave_the_goal_costs_and_to_come_back_too() -> None:
    fleet = Fleet(GridMap.from_ascii("____\n#_##"), ((0, 1), (0, 3)), ((0, 1), (0, 0)))
    env = make(fleet=fleet)
    env.reset(seed=0)
    turns = play(env, "a Stay | b Left", "a Down | b Left", "a Stay | b Left", "a Up | b Stay")
    assert env.optimal_cost == 5
    assert [round(reward * 5) for reward, *_ in turns] == [-1, -2, -2, 5 - 1]


def test_unreadable_replies_are_dearer_than_waiting() -> None:
    env = make(fleet=CROSSING)
    env.reset(seed=0)
    (reward, terminated, truncated, info, told), (waited, *_) = play(env, "a Fly", "a Stay | b Stay")
    assert (reward, waited) == (-0.1 - 2 / 5, -2 / 5)
    assert (terminated, truncated, info["moves"], info["action_is_valid"]) == (False, False, 0, False)
    assert told == "I could not read a move. Reply such as a Up | b Stay, each one of: Left, Down, Right, Up, Stay."


# The oracle --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{}, {"agents": 2, "family": "rooms"}, {"agents": 5, "size": 8}], ids=str)
def test_the_best_plan_totals_nothing(arguments: dict[str, Any]) -> None:
    env = make(**arguments)
    agent = OracleAgent(env)
    for seed in range(15):
        _, info = env.reset(seed=seed)
        total, turns, over = 0.0, 0, False
        while not over:
            assert env.oracle_value() == pytest.approx(-total)
            _, reward, terminated, truncated, step_info = env.step(agent.act(""))
            total, turns, over = total + reward, turns + 1, terminated or truncated
        assert step_info["success"]
        assert total == pytest.approx(0)
        assert turns == info["oracle_steps"]
        assert (env.oracle_value(), env.oracle_action(), env.oracle_thought()) == (0.0, None, "")


@cache
def exact_value(fleet: Fleet, optimum: int, cells: Cells, turns: int) -> float:
    """The best sum of rewards, over all joint moves, those that end in conflicts included."""
    if turns == 0:
        return 0.0
    best = -inf
    for moves in product(range(len(MOVES)), repeat=len(cells)):
        after, _ = advance(fleet.map, cells, moves)
        at_rest = [one == other == goal for one, other, goal in zip(cells, after, fleet.goals, strict=True)]
        reward = -at_rest.count(False) / optimum
        best = max(best, reward + (1 if after == fleet.goals else exact_value(fleet, optimum, after, turns - 1)))
    return best


@pytest.mark.parametrize("fleet", SMALL, ids=lambda fleet: fleet.map.to_ascii())
def test_the_value_is_exact_in_the_turns_left(fleet: Fleet) -> None:
    env = make(fleet=fleet, max_turns=5)
    for seed in range(6):
        env.reset()
        rng, over = np.random.default_rng(seed), False
        while not over:
            value = env.oracle_value()
            assert value == pytest.approx(exact_value(fleet, env.optimal_cost, env.cells, env.turns_left))
            state = env.get_state()
            _, reward, *_ = env.step(env.oracle_action() or "")
            assert reward + (env.oracle_value() or 0.0) == pytest.approx(value)
            env.set_state(state)
            _, _, terminated, truncated, _ = env.step(env.random_action(rng))
            over = terminated or truncated


def test_too_dear_a_success_is_left_alone() -> None:
    fleet = Fleet(GridMap.from_ascii("____\n##_#"), ((0, 0), (0, 2)), ((0, 0), (0, 1)))
    env = make(fleet=fleet, max_turns=12)
    env.reset(seed=0)
    assert env.optimal_cost == 1  # and failing costs as much in every turn
    passed = (0, 1), (0, 0)  # out of order, so that both must go to the bay and back
    start, found = env.get_state(), set()
    for turns in range(1, 12):
        env.set_state(replace(start, board=passed, turns=12 - turns))
        value = env.oracle_value()
        assert value == pytest.approx(exact_value(fleet, 1, passed, turns))
        arriving = cbs(replace(fleet, starts=passed), objective="sum_of_loss", horizon=turns)
        found.add((arriving.status, arriving.cost < inf and value == 1 - arriving.cost))
    assert found == {("unsolvable", False), ("optimal", False), ("optimal", True)}


def test_thoughts_are_the_plan_and_the_next_cells() -> None:
    env = make(fleet=CROSSING)
    env.reset(seed=0)
    thought = env.oracle_thought()
    assert thought in (
        "plan a Stay Right Right | b Down Down, next a 1 0 | b 1 1",
        "plan a Right Right | b Stay Down Down, next a 1 1 | b 0 1",
    )
    env.step(env.oracle_action() or "")
    assert f"a {env.cells[0][0]} {env.cells[0][1]} | b {env.cells[1][0]} {env.cells[1][1]}" == thought.split("next ")[1]


def test_no_answer_where_the_search_gives_up() -> None:
    narrow = Fleet(GridMap.from_ascii("_" * 15), ((0, 0), (0, 9)), ((0, 9), (0, 0)))
    env = make(fleet=BAY)
    env.reset(seed=0)
    assert env.oracle_action() is not None
    env.set_state(replace(env.get_state(), level=FleetLevel(narrow, 18, 9), board=narrow.starts, turn_limit=60))
    assert (env.oracle_action(), env.oracle_value(), env.oracle_thought()) == (None, None, "")


# Arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"agents": 1}, "agents must be between 2 and 8, got 1"),
        ({"agents": 9}, "agents must be between 2 and 8, got 9"),
        ({"size": 3}, "size must be between 4 and 32, got 3"),
        ({"family": "terrain"}, "family must be one of random, rooms, maze, caves, city, got 'terrain'"),
        ({"min_delay": -1}, "min_delay must be at least 0, got -1"),
    ],
    ids=str,
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**arguments)


def test_a_fleet_of_ones_own_is_the_only_level() -> None:
    env = make(fleet=BAY, split="test")
    assert env.shared_splits
    assert {env.reset(seed=seed)[0] for seed in range(3)} == {fleet_text.describe(BAY, BAY.starts)}
    assert (env.agents, env.fleet) == (2, BAY)


def test_splits_share_no_level_in_any_orientation() -> None:
    drawn = []
    for split in SPLITS:
        env = make(agents=2, size=4, split=split)
        env.reset(seed=0)
        drawn.append({env._canonical(env._level) for _ in range(15) if env.reset()})
    assert not drawn[0] & drawn[1] | drawn[0] & drawn[2] | drawn[1] & drawn[2]
