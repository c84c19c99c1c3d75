"""Episodes of a demonstrator, written down as the policy would have lived them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import gymnasium

from turngym.agents.scripted import OracleAgent
from turngym.agents.templates import TurnFormat
from turngym.agents.trajectory import Trajectory, reply_segments
from turngym.agents.window import Window
from turngym.baselines.evaluation import Agent

Env = gymnasium.Env[str, str]

TEACHERS = ("oracle", "rstar2")
"""Who can demonstrate: environments offer them as hooks, `<teacher>_action`."""


class ReplayAgent:
    """Gives recorded replies, one after the other, and "" when they are used up."""

    def __init__(self, replies: Sequence[str]) -> None:
        self._replies = iter(replies)

    def act(self, observation: str) -> str:
        """The next reply; the observation is not read."""
        return next(self._replies, "")


def demonstrate(env: Env, agent: Agent, form: TurnFormat, seed: int, *, history_turns: int | None = None) -> Trajectory:
    """One episode of `agent`; its replies stand where the policy's would, with `policy_mask` 1.

    Args:
        env: The environment.
        agent: Who plays.
        form: How the policy to be trained writes conversations.
        seed: The level.
        history_turns: How many turns that policy remembers; None for all.
    """
    observation, info = env.reset(seed=seed)
    trajectory = Trajectory(
        env_id=env.spec.id if env.spec else "",
        seed=seed,
        level_id=str(info.get("level_id", "")),
        state_keys=[str(info.get("state_key", ""))],
    )
    prompt = form.prompt(str(info.get("instructions", "")))
    window = None if history_turns is None else Window(prompt, form.observation, history_turns)
    trajectory.append_given(prompt, "prompt")
    while not (trajectory.terminated or trajectory.truncated):
        turn = trajectory.turns
        trajectory.append_given(form.observation(observation, first=turn == 0), "observation" if turn else "prompt")
        action = agent.act(observation)
        reply = form.reply(action)
        trajectory.append_sampled(reply, "action", [0.0] * len(reply), [0.0] * len(reply), turn)
        trajectory.segment[-len(reply) :] = reply_segments(reply, form.tokenizer.decode)
        if window is not None:
            trajectory.contexts.append(window.hear(observation))
            window.answer(reply)
        observation, reward, trajectory.terminated, trajectory.truncated, info = env.step(action)
        trajectory.record_turn(float(reward), info)
    return trajectory


def oracle_demonstrations(
    env: Env, form: TurnFormat, seeds: Iterable[int], teacher: str = "oracle", *, history_turns: int | None = None
) -> list[Trajectory]:
    """Successful episodes of the environment's oracle or another of `TEACHERS`, one for each seed that it solves.

    Raises:
        ValueError: If the environment has no such teacher.
    """
    if not env.has_wrapper_attr(f"{teacher}_action"):
        raise ValueError(f"{env} has no {teacher}_action: use --demonstrations none, or a file of episodes")
    agent = OracleAgent(env, teacher)
    episodes = (demonstrate(env, agent, form, seed, history_turns=history_turns) for seed in seeds)
    return [episode for episode in episodes if episode.success]


def load_demonstrations(
    path: Path, env: Env, form: TurnFormat, *, history_turns: int | None = None
) -> list[Trajectory]:
    """Replay episodes of a file in the environment, and keep those that succeed there.

    Args:
        path: JSON lines with `seed` and `replies`, a list of texts; such as the `trajectories.jsonl` of any run.
        env: The environment that they were played in.
        form: How the policy to be trained writes conversations.
        history_turns: How many turns that policy remembers; None for all.

    Raises:
        ValueError: If there is no such file, a line is not as described, or no episode succeeds.
    """
    if not path.is_file():
        raise ValueError(
            f"--demonstrations {path}: allowed are {', '.join(TEACHERS)}, none, or an existing file of episodes"
        )
    episodes = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            recorded = json.loads(line)
            seed, replies = int(recorded["seed"]), [str(reply) for reply in recorded["replies"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"--demonstrations {path}, line {number}: expected seed and replies ({error!r})"
            ) from error
        episodes.append(demonstrate(env, ReplayAgent(replies), form, seed, history_turns=history_turns))
    kept = [episode for episode in episodes if episode.success]
    if not kept:
        raise ValueError(f"--demonstrations {path}: none of its {len(episodes)} episodes succeeds in {env}")
    return kept
