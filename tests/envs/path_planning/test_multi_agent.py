"""MultiAgentPathPlanning: PettingZoo's own tests, and what each agent sees, hears and earns."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pettingzoo_test = pytest.importorskip("pettingzoo.test", reason="PettingZoo comes with the extra multiagent")

from pettingzoo.utils.conversions import parallel_to_aec  # noqa: E402

from turngym.envs.actions import ParseError  # noqa: E402
from turngym.envs.path_planning.fleet import Fleet  # noqa: E402
from turngym.envs.path_planning.joint import JointPathPlanningEnv  # noqa: E402
from turngym.envs.path_planning.maps import GridMap  # noqa: E402
from turngym.envs.path_planning.multi_agent import MultiAgentPathPlanning, Reply, parse_reply  # noqa: E402

# PettingZoo's tests warn at every observation that is no array, at every space that is neither Box nor Discrete, and at
# names that do not end in a number.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Observation is not a NumPy array:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*space for each agent probably should be:UserWarning"),
    pytest.mark.filterwarnings("ignore:We recommend agents to be named:UserWarning"),
]

CROSSING = Fleet(GridMap.from_ascii("#_#\n___\n#_#"), ((1, 0), (0, 1)), ((1, 2), (2, 1)))
SETTINGS: list[dict[str, Any]] = [{}, {"agents": 2, "radius": 1, "message_length": 20}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_passes_pettingzoos_tests(settings: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    pettingzoo_test.parallel_api_test(MultiAgentPathPlanning(**settings), num_cycles=60)
    pettingzoo_test.api_test(parallel_to_aec(MultiAgentPathPlanning(**settings)), num_cycles=60)
    pettingzoo_test.parallel_seed_test(lambda: MultiAgentPathPlanning(**settings), num_cycles=30)
    assert "Passed" in capsys.readouterr().out


def test_levels_and_infos_are_those_of_the_joint_game() -> None:
    env, joint = MultiAgentPathPlanning(), JointPathPlanningEnv()
    for seed in range(5):
        _, infos = env.reset(seed=seed, options={"noise_seed": 1, "map": "small"})
        _, info = joint.reset(seed=seed)
        assert list(infos) == env.agents == ["agent_a", "agent_b", "agent_c"]
        for agent in env.agents:
            own = {"instructions": env.instructions[agent], "optimal_cost": joint.optimal_cost}
            assert infos[agent] == {**info, **own}
    assert env.instructions["agent_b"].startswith("You are b, one of 3 agents on one map")


def test_the_best_plan_totals_nothing_for_everybody() -> None:
    env = MultiAgentPathPlanning()
    for seed in range(10):
        _, infos = env.reset(seed=seed)
        totals, turns = dict.fromkeys(env.agents, 0.0), 0
        while env.agents:
            _, rewards, terminations, truncations, infos_now = env.step(env.oracle_actions() or {})
            totals = {agent: total + rewards[agent] for agent, total in totals.items()}
            turns += 1
        assert set(terminations.values()) == {True}
        assert set(truncations.values()) == {False}
        assert all(info["success"] for info in infos_now.values())
        assert list(totals.values()) == pytest.approx([0.0] * 3)
        assert turns == infos["agent_a"]["oracle_steps"]
        assert env.oracle_actions() == {}
    assert env.step({}) == ({}, {}, {}, {}, {})


def test_it_plays_as_the_joint_game_plays() -> None:
    env, joint, rng = MultiAgentPathPlanning(agents=4), JointPathPlanningEnv(agents=4), np.random.default_rng(0)
    for seed in range(4):
        env.reset(seed=seed)
        joint.reset(seed=seed)
        while env.agents:
            actions = env.random_actions(rng)
            before = env.joint.cells
            observations, rewards, terminations, truncations, infos = env.step(actions)
            text = " | ".join(f"{agent[-1]} {move}" for agent, move in actions.items())
            observation, reward, terminated, truncated, info = joint.step(text)
            assert set(rewards.values()) == {reward}
            assert (set(terminations.values()), set(truncations.values())) == ({terminated}, {truncated})
            for number, agent in enumerate(observations):
                assert infos[agent]["action_is_effective"] == (joint.cells[number] != before[number])
                assert infos[agent]["state_key"] == info["state_key"]
                # the same map, below a first line in another order
                assert observations[agent]["text"].split("\n")[-6:] == observation.split("\n")[-6:]


def texts(observations: dict[str, dict[str, str]]) -> list[str]:
    return [observation["text"] for observation in observations.values()]


def test_everyone_comes_first_in_the_own_view_and_hears_of_the_own_conflicts() -> None:
    fleet = replace(CROSSING, map=CROSSING.map.with_free([(2, 2)]))
    fleet = replace(fleet, starts=(*fleet.starts, (2, 2)), goals=(*fleet.goals, (1, 0)))
    env = MultiAgentPathPlanning(fleet=fleet)
    assert texts(env.reset(seed=0)[0]) == [
        "a 1 0 A 1 2 | b 0 1 B 2 1 | c 2 2 C 1 0\n# b #\na _ A\n# B c",
        "b 0 1 B 2 1 | a 1 0 A 1 2 | c 2 2 C 1 0\n# b #\na _ A\n# B c",
        "c 2 2 C 1 0 | a 1 0 A 1 2 | b 0 1 B 2 1\n# b #\na _ A\n# B c",
    ]
    observations, *_ = env.step({"agent_a": "Right", "agent_b": "Down", "agent_c": "Right"})
    first_lines = [text.split("\n")[0] for text in texts(observations)]
    assert first_lines == ["a and b want 1 1 and stay.", "a and b want 1 1 and stay.", "The wall holds c back."]
    observations, *_ = env.step({"agent_a": "Stay", "agent_b": "Stay", "agent_c": "Up"})
    assert texts(observations)[2].startswith("c 1 2 C 1 0 | ")


def test_who_is_far_away_is_not_seen() -> None:
    corridor = GridMap.from_ascii("______\n##_#_#")
    fleet = Fleet(corridor, ((0, 0), (0, 5), (0, 2)), ((0, 5), (0, 0), (1, 4)))
    env = MultiAgentPathPlanning(fleet=fleet, radius=2)
    first, second, third = texts(env.reset(seed=0)[0])
    assert first == "a 0 0 A 0 5 | c 0 2 C 1 4\na _ c ? ? A\n# # _ ? C ?"
    assert second == "b 0 5 B 0 0\nB ? ? _ _ b\n? ? ? # C #"
    assert third == "c 0 2 C 1 4 | a 0 0 A 0 5\na _ c _ _ A\n# # _ # C ?"
    assert "2 rows and columns" in env.instructions["agent_a"]


def test_messages_come_with_the_next_observation() -> None:
    env = MultiAgentPathPlanning(fleet=CROSSING, message_length=12)
    env.reset(seed=0)
    observations, *_ = env.step({"agent_a": "Stay | after\nyou  ", "agent_b": "Down |"})
    mine, theirs = texts(observations)
    assert mine.startswith("a 1 0 ")
    assert theirs.startswith("a says: after you\nb 1 1 ")
    observations, *_ = env.step({"agent_a": "Stay", "agent_b": "Down"})
    assert texts(observations)[1].startswith("b 2 1 ")
    assert "up to 12 characters" in env.instructions["agent_a"]
    assert "characters" not in MultiAgentPathPlanning(fleet=CROSSING).instructions["agent_a"]


def test_only_the_author_pays_for_what_cannot_be_read() -> None:
    env = MultiAgentPathPlanning(fleet=CROSSING, message_length=4)
    env.reset(seed=0)
    observations, rewards, _, _, infos = env.step({"agent_a": "Right | too long", "agent_b": "Down"})
    assert rewards == {"agent_a": -2 / 5 - 0.1, "agent_b": -2 / 5}
    assert [info["action_is_valid"] for info in infos.values()] == [False, True]
    assert [info["moves"] for info in infos.values()] == [0, 1]
    assert texts(observations)[0].startswith(
        "A message may have 4 characters. Reply with one of: Left, Down, Right, Up"
    )
    assert env.joint.cells == ((1, 0), (1, 1))
    assert "says" not in texts(observations)[1]


@pytest.mark.parametrize(
    ("text", "length", "expected"),
    [
        (" uP ", 0, Reply(3, "")),
        ("Stay|", 5, Reply(4, "")),
        ("Left | a | b", 5, Reply(0, "a | b")),
        ("Up |", 0, ParseError("I could not read a move.")),
        ("Up now", 9, ParseError("I could not read a move.")),
        ("| hello", 9, ParseError("I could not read a move.")),
        ("Up | hello!", 5, ParseError("A message may have 5 characters.")),
    ],
)
def test_replies(text: str, length: int, expected: Reply | ParseError) -> None:
    assert parse_reply(text, length) == expected


@given(text=st.text(max_size=60) | st.text("Up |\n", max_size=20), length=st.integers(0, 10))
def test_any_text_is_read_or_refused(text: str, length: int) -> None:
    reply = parse_reply(text, length)
    if isinstance(reply, Reply):
        assert len(reply.message) <= length
        assert "\n" not in reply.message


def test_misuse_is_named() -> None:
    env = MultiAgentPathPlanning(fleet=CROSSING)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="actions must hold one for every live agent, got none for agent_b"):
        env.step({"agent_a": "Up"})
    with pytest.raises(TypeError, match="an action is a string, got int for agent_b"):
        env.step({"agent_a": "Up", "agent_b": 3})
    with pytest.raises(ValueError, match="message_length must be at least 0, got -1"):
        MultiAgentPathPlanning(message_length=-1)
    with pytest.raises(ValueError, match="radius must be at least 1, got 0"):
        MultiAgentPathPlanning(radius=0)
    with pytest.raises(ValueError, match="agents must be between 2 and 8, got 9"):
        MultiAgentPathPlanning(agents=9)


def test_draws_the_whole_board() -> None:
    env = MultiAgentPathPlanning(fleet=CROSSING, radius=1, render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (96, 96, 3)
    env.close()


def test_the_core_does_without_pettingzoo(run_python: Callable[..., str]) -> None:
    code = "import turngym.envs.path_planning.joint, sys; print('pettingzoo' in sys.modules)"
    assert run_python("-c", code) == "False\n"
    missing = (
        "import sys; sys.modules['pettingzoo'] = None\n"
        "try:\n    import turngym.envs.path_planning.multi_agent\nexcept ImportError as error:\n    print(error)"
    )
    assert 'pip install "turngym[multiagent]"' in run_python("-c", missing)
