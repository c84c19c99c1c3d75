"""Early experience: what else could have been done in the states of a demonstration, carried out and written down.

    branches = branch(env, actions, seed, count=3, rng=rng)
    examples = [transition(each, outcome, instructions, form) for each in branches for outcome in each.outcomes]
    thought = reflection(branches[0])

Every state is saved before the demonstrated action and restored after each alternative (`get_state`, `set_state`), so
that K alternatives in N states cost K N steps, and not K N^2 / 2 as replays would. All of them meet the luck that the
demonstrated action met. What is made of the branches: examples for a world model, which predict what follows an action;
and reflections, which weigh executed outcomes against each other and end with the demonstrated action.

Source: Early Experience, arXiv:2510.08558. There, a large model writes the reflections; about one in six of its
published ones names the expert, and one in four tells what happens only later. Here a template writes them, from the
outcomes alone, and `leaks` checks whatever wrote them.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

import gymnasium
import numpy as np

from turngym.agents.templates import TurnFormat
from turngym.agents.trajectory import Trajectory

Env = gymnasium.Env[str, str]

_PREDICT = "Do not act: predict the observation that follows the action."
_DELIMITER = "Observation:\n"
_DRAWS = 8  # of a random action, for each alternative that is wanted
_LABELS = re.compile(r"\b(expert|demonstrat\w*|oracle|ground truth|gold(en)?|label|reference|optimal|correct)\b", re.I)


class Rank(IntEnum):
    """What became of an action at once, from worst to best."""

    LOST = 0
    UNREAD = 1
    NOTHING = 2
    GOES_ON = 3
    SOLVED = 4


_PHRASES = {
    Rank.LOST: "ends the game",
    Rank.UNREAD: "could not read",
    Rank.NOTHING: "Nothing happened",
    Rank.GOES_ON: "goes on",
    Rank.SOLVED: "reached the goal",
}


@dataclass(frozen=True)
class Outcome:
    """What came of an action that was carried out.

    Attributes:
        action: The reply's action.
        observation: What was seen next.
        reward: What it earned.
        rank: What became of it.
    """

    action: str
    observation: str
    reward: float
    rank: Rank

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "rank": self.rank.name.lower()}


@dataclass(frozen=True)
class Branch:
    """A state of a demonstration.

    Attributes:
        observation: What was seen there.
        chosen: The demonstrated action.
        tried: Other actions, carried out from the same state.
    """

    observation: str
    chosen: Outcome
    tried: tuple[Outcome, ...]

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """All of them, ordered by action, so that their order does not tell which was chosen."""
        return tuple(sorted((self.chosen, *self.tried), key=lambda outcome: outcome.action))


def branch(env: Env, actions: Sequence[str], seed: int, *, count: int, rng: np.random.Generator) -> list[Branch]:
    """Play an episode again, and try other actions from each of its states.

    Args:
        env: An environment with `get_state` and `set_state`, and `legal_actions` or `random_action`.
        actions: The episode's, as the environment reads them.
        seed: Of the episode.
        count: How many others in each state, at most.
        rng: Draws them.

    Returns:
        One branch for each state that an action was played from.

    Raises:
        ValueError: If the environment has not these hooks.
    """
    core = owner_of_state(env)
    observation, _ = env.reset(seed=seed)
    branches, over = [], False
    for action in actions:
        if over:
            break
        state, tried = core.get_state(), []
        for other in alternatives(env, action, count, rng):
            tried.append(_outcome(other, core.step(other)))
            restored, _ = core.set_state(state)
            assert restored == observation, "set_state did not bring back the state that get_state saved"
        step = env.step(action)
        branches.append(Branch(observation, _outcome(action, step), tuple(tried)))
        observation, over = step[0], step[2] or step[3]
    return branches


def owner_of_state(env: Env) -> Any:
    """The outermost part of an environment that saves and restores: what only counts steps around it must not see any.

    Raises:
        ValueError: If there is none.
    """
    part: Any = env
    while not hasattr(part, "set_state"):
        if part is env.unwrapped:
            raise ValueError(f"{env} has no get_state and set_state: its states cannot be branched")
        part = part.env
    return part


def _outcome(action: str, step: tuple[str, Any, bool, bool, dict[str, Any]]) -> Outcome:
    observation, reward, terminated, _, info = step
    if info.get("success"):
        rank = Rank.SOLVED
    elif terminated:
        rank = Rank.LOST
    elif not info.get("action_is_valid", True):
        rank = Rank.UNREAD
    else:
        rank = Rank.GOES_ON if info.get("action_is_effective", True) else Rank.NOTHING
    return Outcome(action, observation, float(reward), rank)


def alternatives(env: Env, action: str, count: int, rng: np.random.Generator) -> list[str]:
    """At most so many other actions for the present state: legal ones where they can be listed, else random ones.

    Raises:
        ValueError: If the environment has neither `legal_actions` nor `random_action`.
    """
    legal = env.get_wrapper_attr("legal_actions")() if env.has_wrapper_attr("legal_actions") else None
    if legal is None and not env.has_wrapper_attr("random_action"):
        raise ValueError(f"{env} has neither legal_actions nor random_action: there is nothing else to try")
    if legal is not None:
        drawn = [legal[index] for index in rng.permutation(len(legal))]
    else:
        drawn = [env.get_wrapper_attr("random_action")(rng) for _ in range(_DRAWS * count)]
    return [each for each in dict.fromkeys(drawn) if each != action][:count]


def transition(branched: Branch, outcome: Outcome, instructions: str, form: TurnFormat) -> Trajectory:
    """An exchange that teaches what follows an action: its prompt is not that of the policy, its target is delimited.

    Args:
        branched: The state.
        outcome: The action, and what came of it.
        instructions: The environment's rules, which stand in the prompt.
        form: How the model writes conversations.

    Returns:
        Its reply is `Observation:` and, from the next line on, what was seen next.
    """
    example = Trajectory()
    example.append_given(form.prompt(f"{instructions} {_PREDICT}".lstrip()), "prompt")
    example.append_given(form.observation(f"{branched.observation}\nAction: {outcome.action}", first=True), "prompt")
    reply = form.reply(_DELIMITER + outcome.observation)
    example.append_sampled(reply, "answer", [0.0] * len(reply), [0.0] * len(reply), 0)
    return example


def reflection(branched: Branch) -> str | None:
    """A thought that weighs the executed outcomes and ends with the demonstrated action.

    Returns:
        None where the outcomes do not speak for that action: one of the others did better, or all did alike.
    """
    ranks = [outcome.rank for outcome in branched.outcomes]
    if branched.chosen.rank < max(ranks) or min(ranks) == max(ranks):
        return None
    weighed = " ".join(f"{each.action}: {_PHRASES[each.rank]}." for each in branched.outcomes)
    return f"{weighed} So {branched.chosen.action}."


def leaks(thought: str, now: Branch, later: Sequence[Branch]) -> bool:
    """Whether a thought tells what could not be known when it is thought.

    That is whose action is right by decree (an expert's, a label), or a line of a later observation that was neither
    seen in this state nor by trying actions from it.

    Args:
        thought: By whomever it was written.
        now: The state that it was written for.
        later: The states of the same episode that follow.
    """
    if _LABELS.search(thought):
        return True
    seen = "\n".join([now.observation, *(outcome.observation for outcome in now.outcomes)]).splitlines()
    future = [line for each in later for line in f"{each.observation}\n{each.chosen.observation}".splitlines()]
    return any(line.strip() and line not in seen and line in thought for line in future)


def reflections(branches: Sequence[Branch]) -> list[str]:
    """A thought for each state of an episode, "" where there is none to keep."""
    thoughts = []
    for turn, each in enumerate(branches):
        thought = reflection(each)
        thoughts.append("" if thought is None or leaks(thought, each, branches[turn + 1 :]) else thought)
    return thoughts
