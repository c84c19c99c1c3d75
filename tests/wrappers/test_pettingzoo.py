import gymnasium
import pytest

pettingzoo_test = pytest.importorskip("pettingzoo.test", reason="PettingZoo comes with the extra multiagent")

from pettingzoo.utils.conversions import parallel_to_aec  # noqa: E402

from turngym.agents.scripted import OracleAgent  # noqa: E402
from turngym.wrappers import ReasoningWrapper, TextParallelEnv  # noqa: E402

# PettingZoo's tests warn at every observation that is no array, and at every space that is neither Box nor Discrete.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Observation is not a NumPy array:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*space for each agent probably should be:UserWarning"),
]


def make():
    return TextParallelEnv(gymnasium.make("TextFrozenLake-v0"))


def test_passes_the_parallel_api_test() -> None:
    pettingzoo_test.parallel_api_test(make(), num_cycles=100)


def test_passes_the_seed_test() -> None:
    pettingzoo_test.parallel_seed_test(make, num_cycles=100)


def test_passes_the_turn_based_api_test() -> None:
    pettingzoo_test.api_test(parallel_to_aec(make()), num_cycles=100)


def test_is_the_environment_it_wraps() -> None:
    env, plain = make(), gymnasium.make("TextFrozenLake-v0")
    observations, infos = env.reset(seed=3)
    text, info = plain.reset(seed=3)
    assert observations == {"player_0": {"text": text}}
    assert infos == {"player_0": info}
    agent, over = OracleAgent(plain), False
    while not over:
        action = agent.act("")
        text, reward, terminated, truncated, info = plain.step(action)
        got = env.step({"player_0": action})
        assert got == tuple({"player_0": part} for part in ({"text": text}, reward, terminated, truncated, info))
        over = terminated or truncated
    assert env.agents == []
    assert env.step({}) == ({}, {}, {}, {}, {})


def test_hands_luck_on_and_ignores_the_options_of_others() -> None:
    env = TextParallelEnv(ReasoningWrapper(gymnasium.make("TextFrozenLake-v0", success_rate=0.4)))
    plain = gymnasium.make("TextFrozenLake-v0", success_rate=0.4).unwrapped
    env.reset(seed=3, options={"noise_seed": 9, "map": "small"})
    plain.reset(seed=3, options={"noise_seed": 9})
    assert env.env.unwrapped.get_state() == plain.get_state()


def test_names_a_missing_action() -> None:
    env = make()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="actions must hold one for player_0"):
        env.step({})
    env.close()
