"""Episodes of a demonstrator, written down as the policy would have lived them."""

from collections.abc import Sequence

import gymnasium

from turngym.agents.scripted import OracleAgent
from turngym.agents.templates import TurnFormat
from turngym.agents.trajectory import Trajectory

Env = gymnasium.Env[str, str]


def demonstrate(env: Env, agent: OracleAgent, form: TurnFormat, seed: int) -> Trajectory:
    """One episode of `agent`; its replies stand where the policy's would, with `policy_mask` 1 and no log-probability."""
    observation, info = env.reset(seed=seed)
    trajectory = Trajectory(
        env_id=env.spec.id if env.spec else "",
        seed=seed,
        level_id=str(info.get("level_id", "")),
        state_keys=[str(info.get("state_key", ""))],
    )
    trajectory.append_given(form.prompt(str(info.get("instructions", ""))), "prompt")
    while not (trajectory.terminated or trajectory.truncated):
        turn = trajectory.turns
        given = form.observation(observation, first=turn == 0)
        trajectory.append_given(given, "observation" if turn else "prompt")
        action = agent.act(observation)
        reply = form.reply(action)
        trajectory.append_sampled(reply, "action", [0.0] * len(reply), [0.0] * len(reply), turn)
        observation, reward, trajectory.terminated, trajectory.truncated, info = env.step(action)
        trajectory.rewards.append(float(reward))
        trajectory.infos.append(info)
        trajectory.state_keys.append(str(info.get("state_key", "")))
    trajectory.success = bool(info.get("success", False))
    return trajectory


def oracle_demonstrations(env: Env, form: TurnFormat, seeds: Sequence[int]) -> list[Trajectory]:
    """Successful episodes of the environment's oracle, one for each seed that it solves.

    Raises:
        ValueError: If the environment has no oracle.
    """
    try:
        agent = OracleAgent(env)
    except AttributeError as error:
        raise ValueError(f"{env} has no oracle_action: use --demonstrations none, or a file of trajectories") from error
    episodes = (demonstrate(env, agent, form, seed) for seed in seeds)
    return [episode for episode in episodes if episode.success]
