"""Demonstrations from an oracle and from a file."""

import json

import gymnasium
import pytest

from turngym.agents import tiny
from turngym.agents.templates import turn_format
from turngym.baselines.demonstrations import load_demonstrations, oracle_demonstrations

FORM = turn_format(tiny.build_tokenizer())


@pytest.fixture
def env() -> gymnasium.Env:
    return gymnasium.make("turngym:TextFrozenLake-v0")


def test_an_oracle_episode_is_written_as_the_policy_would_have_lived_it(env) -> None:
    (episode,) = oracle_demonstrations(env, FORM, [4])
    text = FORM.tokenizer.decode(episode.ids)
    observation, info = env.reset(seed=4)
    assert text.startswith(f"<|user|>{info['instructions']}\n\n{observation}<|end|><|assistant|>")
    assert episode.turns == info["oracle_steps"]
    assert all(token == FORM.end for token in [ids[-1] for ids in episode.replies()])
    assert sum(episode.policy_mask) == 2 * episode.turns  # one token for the move, one for the end
    assert episode.success


def test_a_file_gives_the_episodes_that_it_records(env, tmp_path) -> None:
    wanted = oracle_demonstrations(env, FORM, range(5))
    lines = [
        json.dumps({"seed": each.seed, "replies": [FORM.tokenizer.decode(ids[:-1]) for ids in each.replies()]})
        for each in wanted
    ]
    lines.append(json.dumps({"seed": 1, "replies": ["no idea"]}))
    path = tmp_path / "episodes.jsonl"
    path.write_text("\n".join(lines))
    assert [each.ids for each in load_demonstrations(path, env, FORM)] == [each.ids for each in wanted]


def test_bad_files_are_named(env, tmp_path) -> None:
    path = tmp_path / "episodes.jsonl"
    with pytest.raises(ValueError, match="allowed are oracle, rstar2, none, or an existing file"):
        load_demonstrations(path, env, FORM)
    path.write_text('{"seed": 1, "replies": ["Up"]}\n{"seed": 2}\n')
    with pytest.raises(ValueError, match="line 2: expected seed and replies"):
        load_demonstrations(path, env, FORM)
    path.write_text('{"seed": 1, "replies": []}\n')
    with pytest.raises(ValueError, match="none of its 1 episodes succeeds"):
        load_demonstrations(path, env, FORM)


def test_an_env_without_an_oracle_says_so() -> None:
    with pytest.raises(ValueError, match="has no oracle_action"):
        oracle_demonstrations(gymnasium.make("FrozenLake-v1"), FORM, [0])


@pytest.mark.parametrize("taught", ["PathPlanning-v0", "RStar2-v0"])
def test_rstar2_teaches_its_path_or_its_waypoints(taught) -> None:
    env = gymnasium.make(f"turngym:{taught}")
    episodes = oracle_demonstrations(env, FORM, range(4), "rstar2")
    assert [each.seed for each in episodes] == [0, 1, 2, 3]
    for each in episodes:
        env.reset(seed=each.seed)
        for ids in each.replies():
            assert FORM.tokenizer.decode(ids[:-1]) == env.get_wrapper_attr("rstar2_action")()
            env.step(FORM.tokenizer.decode(ids[:-1]))


def test_an_env_without_a_teacher_says_so(env) -> None:
    with pytest.raises(ValueError, match="has no rstar2_action"):
        oracle_demonstrations(env, FORM, [0], "rstar2")
