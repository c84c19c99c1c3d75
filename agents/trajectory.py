"""One episode, token by token."""

import dataclasses
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Segment = Literal["prompt", "observation", "thought", "action", "code", "answer"]
_THOUGHT_END = "</think>"


def reply_segments(ids: list[int], decode: Callable[[list[int]], str]) -> list[Segment]:
    """What each token of a reply is part of: the thought up to `</think>`, if there is one, and then the action."""
    if _THOUGHT_END not in decode(ids):
        return ["action"] * len(ids)
    thought = bisect_left(range(len(ids) + 1), True, key=lambda count: _THOUGHT_END in decode(ids[:count]))
    return [*["thought"] * thought, *["action"] * (len(ids) - thought)]


@dataclass
class Trajectory:
    """An episode as the policy read and wrote it.

    Token lists have one length n; turn lists have one length K.

    Attributes:
        ids: Token ids of the whole transcript, in order; decoding them gives its text.
        policy_mask: 1 exactly where the policy sampled the token (the end of a reply included), else 0.
        turn_id: The turn whose reply a sampled token belongs to, else -1.
        segment: What each token is part of.
        log_probs: Natural logarithm of the probability with which the token was sampled; 0 where it was not.
        values: The critic's estimate just before the token was sampled; 0 where it was not.
        rewards: What each turn earned.
        state_keys: Fingerprint of the board before each turn and after the last, K + 1 of them.
        infos: What the environment said of each turn.
        terminated: Whether the task itself ended.
        truncated: Whether the episode was cut short.
        bootstrap_value: The critic's estimate after the last observation of a truncated episode, else 0.
        env_id: The environment's id.
        seed: The seed that `reset` was given.
        group: Trajectories with the same number share level and start.
        level_id: Fingerprint of the level.
        success: Whether the task was solved.
        valid: False where a failure of ours spoiled the sample, so that nothing is learned from it.
        on_policy: Whether tokens were drawn from the model's own distribution, neither sharpened nor cut: `log_probs`
            are then those of the model, and it can be trained on them.
        importance: Weight of each sampled token, where another engine sampled it; empty where the trainer did.
        contexts: Where the policy remembers the last turns only: what it had read before the reply of each turn.
            Otherwise empty, for then that is all that stands before it.
    """

    ids: list[int] = field(default_factory=list)
    policy_mask: list[int] = field(default_factory=list)
    turn_id: list[int] = field(default_factory=list)
    segment: list[Segment] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    state_keys: list[str] = field(default_factory=list)
    infos: list[dict[str, Any]] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False
    bootstrap_value: float = 0.0
    env_id: str = ""
    seed: int | None = None
    group: int = 0
    level_id: str = ""
    success: bool = False
    valid: bool = True
    on_policy: bool = True
    importance: list[float] = field(default_factory=list)
    contexts: list[list[int]] = field(default_factory=list)

    def append_given(self, ids: list[int], segment: Segment) -> None:
        """Add tokens that the policy did not sample."""
        self._append(ids, segment, sampled=False, turn=-1)
        self.log_probs += [0.0] * len(ids)
        self.values += [0.0] * len(ids)

    def append_sampled(
        self, ids: list[int], segment: Segment, log_probs: list[float], values: list[float], turn: int
    ) -> None:
        """Add tokens that the policy sampled in turn `turn`."""
        assert len(ids) == len(log_probs) == len(values), "a sampled token has one log-probability and one value"
        self._append(ids, segment, sampled=True, turn=turn)
        self.log_probs += log_probs
        self.values += values

    def _append(self, ids: list[int], segment: Segment, *, sampled: bool, turn: int) -> None:
        self.ids += ids
        self.policy_mask += [int(sampled)] * len(ids)
        self.turn_id += [turn] * len(ids)
        self.segment += [segment] * len(ids)

    def record_turn(self, reward: float, info: dict[str, Any]) -> None:
        """Add the environment's answer to a turn. Where it does not speak of success, reward at the end is success.

        An info with `valid` False says that a failure of the environment's own spoiled the episode.
        """
        self.rewards.append(reward)
        self.infos.append(info)
        self.state_keys.append(str(info.get("state_key", "")))
        self.success = bool(info.get("success", self.terminated and reward > 0))
        self.valid = self.valid and bool(info.get("valid", True))

    @property
    def turns(self) -> int:
        """How many turns were played."""
        return len(self.rewards)

    @property
    def episode_return(self) -> float:
        """Sum of the rewards."""
        return sum(self.rewards)

    def policy_positions(self) -> list[int]:
        """Indices of the sampled tokens, in order."""
        return [index for index, sampled in enumerate(self.policy_mask) if sampled]

    def turn_ends(self) -> list[bool]:
        """For each sampled token, in order, whether it is the last of its turn."""
        turns = [turn for turn in self.turn_id if turn >= 0]
        return [here != after for here, after in zip(turns, [*turns[1:], -1], strict=True)]

    def replies(self) -> list[list[int]]:
        """The ids that the policy sampled, turn by turn."""
        written: list[list[int]] = [[] for _ in range(self.turns)]
        for token, turn in zip(self.ids, self.turn_id, strict=True):
            if turn >= 0:
                written[turn].append(token)
        return written

    def parts(self) -> list["Trajectory"]:
        """What the model reads to score the sampled tokens, which stand in them in the same order as here.

        That is this trajectory; or, where the policy remembers the last turns only, one for each turn: its context, and
        its reply as the only thing that was sampled.
        """
        return [self._part(turn, context) for turn, context in enumerate(self.contexts)] or [self]

    def _part(self, turn: int, context: list[int]) -> "Trajectory":
        mine = [at for at, each in enumerate(self.turn_id) if each == turn]
        part = Trajectory(seed=self.seed, group=self.group, env_id=self.env_id, level_id=self.level_id)
        part.append_given(context, "prompt")
        ids, log_probs, values = ([each[at] for at in mine] for each in (self.ids, self.log_probs, self.values))
        part.append_sampled(ids, "action", log_probs, values, 0)
        part.segment[-len(mine) :] = [self.segment[at] for at in mine]
        return part

    def to_dict(self) -> dict[str, Any]:
        """All fields by name, as they stand in `trajectories.jsonl`."""
        return dataclasses.asdict(self)
