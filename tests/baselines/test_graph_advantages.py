"""Graph advantages: by hand, against breadth-first search on a lake, and against its exact values."""

from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.agents.trajectory import Trajectory
from turngym.baselines.graph_advantages import goal_distances, graft, graph_values, graphgpo
from turngym.baselines.group_advantages import grpo
from turngym.envs import grid, lake

GAMMA = 0.9


@dataclass
class Walks:
    """Random walks over one lake, each until it ends, with the cell and the move of every turn."""

    level: lake.Lake
    episodes: list[Trajectory]
    steps: list[list[tuple[int, int]]]

    def cells(self) -> dict[int, str]:
        """Cells that a turn was played from, and their state keys."""
        pairs = zip(self.episodes, self.steps, strict=True)
        return {cell: each.state_keys[turn] for each, path in pairs for turn, (cell, _) in enumerate(path)}


@pytest.fixture(scope="module")
def walks() -> Walks:
    env = gymnasium.make("turngym:TextFrozenLake-v0", max_turns=10_000, ice_probability=0.9)
    rng, episodes, steps = np.random.default_rng(0), [], []
    for _ in range(300):
        observation, info = env.reset(seed=3)
        level = lake.parse_lake(observation.replace("P", "S"))
        episode, path = Trajectory(state_keys=[info["state_key"]]), list[tuple[int, int]]()
        while not episode.terminated:
            move, player = int(rng.integers(4)), env.get_wrapper_attr("as_array")() >= 3
            path.append((int(np.flatnonzero(player)[0]), move))
            _, reward, episode.terminated, _, info = env.step(grid.DIRECTIONS[move])
            episode.record_turn(float(reward), info)
        episodes.append(episode)
        steps.append(path)
    return Walks(level, episodes, steps)


def exact_values(walks: Walks) -> dict[int, float]:
    """Iterative evaluation of the walks' own frequencies of moves in the lake's true transitions."""
    counts = np.zeros((walks.level.size**2, 4))
    np.add.at(counts, tuple(np.concatenate(walks.steps).T), 1)
    policy = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    onward = np.einsum("cm,mcd->cd", policy, lake.transitions(walks.level, 1.0))
    awake = [cell for cell, symbol in enumerate(walks.level.cells) if symbol not in (lake.GOAL, lake.HOLE)]
    values = np.zeros(len(counts))
    for _ in range(1000):
        values[awake] = onward[awake, walks.level.goal] + GAMMA * onward[awake] @ values
    return dict(enumerate(values.tolist()))


def test_the_walks_cover_the_lake(walks) -> None:
    level, steps = walks.level, {step for path in walks.steps for step in path}
    standing = [cell for cell in range(16) if level.cells[cell] not in (lake.HOLE, lake.GOAL)]
    ways = {cell: grid.shortest_path(level.cells, 4, level.start, cell, lake.HOLE) for cell in standing}
    assert steps == {(cell, move) for cell in standing for move in range(4) if ways[cell] >= 0}
    assert len(steps) > 40
    assert 0 < sum(each.success for each in walks.episodes) < len(walks.episodes)


def test_graft_is_exact_on_a_covered_lake(walks) -> None:
    exact, values = exact_values(walks), graph_values(walks.episodes, GAMMA)
    for cell, key in walks.cells().items():
        assert values[key] == pytest.approx(exact[cell], abs=1e-12)
    advantages = graft(walks.episodes, turn_gamma=GAMMA, scale=False)
    for path, own, each in zip(walks.steps, advantages, walks.episodes, strict=True):
        cells = [cell for cell, _ in path]
        after = [GAMMA * exact[cell] for cell in cells[1:]] + [float(each.success)]
        np.testing.assert_allclose(own, np.array(after) - [exact[cell] for cell in cells], atol=1e-12)


def test_distances_are_those_of_breadth_first_search(walks) -> None:
    level, distances = walks.level, goal_distances(walks.episodes)
    for cell, key in walks.cells().items():
        assert distances[key] == grid.shortest_path(level.cells, level.size, cell, level.goal, lake.HOLE)


def test_graphgpo_by_hand(episode) -> None:
    """From `a` one turn leads to `b`, next to the goal, two lead nowhere: farther than the farthest, so 3 away."""
    group = [episode("abg", [0.0, 1.0]), episode("ach", [0.0, 0.0]), episode("ac", [0.0])]
    assert goal_distances(group) == {"b": 1, "a": 2}
    advantages, flat = graphgpo(group, distance_decay=0.5, step_weight=3.0), grpo(group)
    worth = np.array([0.5**1, 0.5**3, 0.5**3])
    scaled = (worth - worth.mean()) / worth.std(ddof=1)
    np.testing.assert_allclose(
        [own[0] for own in advantages], [ep[0] + 3 * z for ep, z in zip(flat, scaled, strict=True)]
    )
    np.testing.assert_allclose([advantages[0][1], advantages[1][1]], [flat[0][1], flat[1][1]])


def test_failures_are_credited_for_progress(episode) -> None:
    """The second fails after it has come as close as the first, whose way it shares up to there."""
    group = [episode("abcg", [0.0, 0.0, 1.0]), episode("abch", [0.0, 0.0, 0.0]), episode("aah", [0.0, 0.0])]
    won, lost, astray = graphgpo(group, step_weight=1.0)
    flat = grpo(group)
    assert lost[0] - flat[1][0] == pytest.approx(won[0] - flat[0][0])
    assert lost[0] - flat[1][0] > 0 > astray[0] - flat[2][0]
    assert won[2] - flat[0][2] == pytest.approx(0.5**0.5)
    assert lost[2] - flat[1][2] == pytest.approx(-(0.5**0.5))


def test_credit_does_not_fade_with_the_distance(episode) -> None:
    """Twenty turns before the goal, where two go ahead and one stands still."""
    road = "abcdefghijklmnopqrstu"
    group = [episode(f"{road}g", [0.0] * 20 + [1.0]), episode(f"a{road}g", [0.0] * 21 + [1.0])]
    first = [own[0] for own in graphgpo(group)]
    worth = np.array([1.0, 0.1, 1.0])
    np.testing.assert_allclose(first, ((worth - worth.mean()) / worth.std(ddof=1))[:2])


def test_without_success_the_graph_says_nothing(episode) -> None:
    group = [episode("abh", [0.0, -0.1]), episode("aah", [0.0, 0.0])]
    for own, flat in zip(graphgpo(group), grpo(group), strict=True):
        np.testing.assert_allclose(own, flat)


@pytest.mark.parametrize("decay", [0.0, 1.0, -1.0])
def test_a_decay_out_of_range_is_named(episode, decay) -> None:
    with pytest.raises(ValueError, match=f"distance_decay must lie between 0 and 1, got {decay}"):
        graphgpo([episode("ab", [1.0])], distance_decay=decay)


def test_values_by_hand(episode) -> None:
    """`b` was left three times, twice to the goal; `a` leads to `b` twice and once to itself."""
    group = [episode("abg", [0.0, 1.0]), episode("aabh", [0.0, -0.1, 0.0]), episode("bg", [1.0])]
    values = graph_values(group, 0.5)
    v_b = 2 / 3
    v_a = (-0.1 / 3 + 2 / 3 * 0.5 * v_b) / (1 - 0.5 / 3)
    assert values == {"a": pytest.approx(v_a), "b": pytest.approx(v_b)}
    won, lost, _ = graft(group, turn_gamma=0.5, scale=False)
    np.testing.assert_allclose(won, [0.5 * v_b - v_a, 1 - v_b])
    np.testing.assert_allclose(lost, [0.5 * v_a - v_a, -0.1 + 0.5 * v_b - v_a, 0 - v_b])


def test_a_good_step_of_a_failure_is_good(episode) -> None:
    """Its way to `b` is as good as that of the one that won: what went wrong there is charged to the turn after."""
    won, lost, _ = graft([episode("abg", [0.0, 1.0]), episode("abh", [0.0, 0.0]), episode("ah", [0.0])])
    assert won[0] == pytest.approx(lost[0])
    assert lost[0] > 0 > lost[1]


def test_running_out_of_turns_says_nothing_of_the_last_state(episode) -> None:
    group = [episode("abg", [0.0, 1.0]), episode("ab", [0.0])]
    assert graph_values(group, 1.0)["b"] == 1.0


rollouts = st.lists(st.tuples(st.text("abc", min_size=2, max_size=6), st.booleans()), min_size=1, max_size=6)


@settings(max_examples=50)
@given(rollouts, st.floats(0, 0.99), st.floats(0, 1))
def test_graph_gae_and_lone_edges_change_nothing(episode, rollout, gamma, decay) -> None:
    """The paper's equation 10 worked out edge by edge, and its rule for states with one edge."""
    group = [episode(states, [0.0] * (len(states) - 2) + [float(won)]) for states, won in rollout]
    residuals = graft(group, turn_gamma=gamma, scale=False)
    edges = [
        (each.state_keys[turn], each.state_keys[turn + 1] if turn < each.turns - 1 else None, residual)
        for each, own in zip(group, residuals, strict=True)
        for turn, residual in enumerate(own)
    ]
    for source, after, residual in edges:
        if sum(other == source for other, _, _ in edges) == 1:
            assert abs(residual) < 1e-9
        frontier, more = {after}, 0.0
        for hops in range(1, 6):
            ahead = [edge for edge in edges if edge[0] in frontier]
            more += (gamma * decay) ** hops * (np.mean([edge[2] for edge in ahead]) if ahead else 0.0)
            frontier = {edge[1] for edge in ahead}
        assert abs(more) < 1e-9


@settings(max_examples=50)
@given(rollouts)
def test_without_discount_a_start_is_worth_what_came_of_it(episode, rollout) -> None:
    """Where all episodes start in a state that none comes back to, its value is their mean return."""
    group = [episode(f"s{states}", [0.0] * (len(states) - 1) + [float(won)]) for states, won in rollout]
    assert graph_values(group, 1.0)["s"] == pytest.approx(np.mean([each.episode_return for each in group]))
