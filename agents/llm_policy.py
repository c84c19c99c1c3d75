"""A language model that plays: chat template, generation and bookkeeping, and no knowledge of any environment."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch

from turngym.agents.generation import CachedSequences
from turngym.agents.models import PolicyModel
from turngym.agents.sampling import Sampling, sample
from turngym.agents.trajectory import Segment, Trajectory, reply_segments
from turngym.agents.window import Window

_KEPT_OBSERVATIONS = 1024
"""Encoded observations that are kept: episodes of one level see the same ones."""

_SHORTEST_REPLY = 2
"""A token, and the end token."""


@dataclass
class _Reply:
    """A reply that is being written: at most `limit` tokens, with what was said of each when it was sampled."""

    limit: int
    ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


class LLMPolicy:
    """Plays episodes side by side with one model.

    Observations are appended to a history that never changes; the ids that were sampled are kept as they are. What
    the policy wrote and read of episode `i` grows in `trajectories[i]`, whole turns at a time.

    Episodes come (`reset`, `join`) and go (`release`, `close`) without any token of the others being read again. Turn
    by turn `act` plays them together; `observe` and `advance`, token by token, let each go on as soon as it can.

    Args:
        model: The model.
        temperature: Of sampling; 0 takes the likeliest token.
        top_k: So many of the likeliest tokens are sampled from; None for all.
        top_p: The fewest likeliest tokens with this share of the mass are sampled from.
        min_p: Tokens below this share of the likeliest one's probability are not sampled.
        max_new_tokens: Longest reply, its end token included; a reply that reaches it is ended for the policy.
        max_tokens: Longest transcript, all of it counted: a reply that would pass it is ended for the policy, and then
            its episode. By default as many as the model has positions.
        history_turns: So many turns before the present one are remembered, beside the instructions; None for all. What
            `max_tokens` counts is then what is read before a reply, and the reply. A turn is read anew, but for what
            it begins with like the one before, and is a training sample of its own (`Trajectory.parts`).
        stop: Texts that end a turn when a reply contains them; the reply ends with the first.
        seed: Seed of the draws. Every episode has a stream of its own, so a reply does not depend on the batch.

    Training needs the model's own distribution: temperature 1, and no `top_k`, `top_p` or `min_p`. Trajectories that
    were sampled otherwise say so (`on_policy`), and are refused there.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(
        self,
        model: PolicyModel,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        max_new_tokens: int = 16,
        max_tokens: int | None = None,
        history_turns: int | None = None,
        stop: Sequence[str] = (),
        seed: int | Sequence[int] = 0,
    ) -> None:
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1 or None, got {max_tokens}")
        if history_turns is not None and history_turns < 0:
            raise ValueError(f"history_turns must be at least 0 or None, got {history_turns}")
        self.history_turns = history_turns
        self.model, self.max_new_tokens, self.stop = model, max_new_tokens, tuple(stop)
        self.max_tokens = max_tokens or model.max_tokens
        self.sampling = Sampling(temperature, top_k, top_p, min_p)
        self._seed = [seed] if isinstance(seed, int) else list(seed)
        self._tail = max((len(text.encode()) for text in self.stop), default=0) + 3
        self._encoded = lru_cache(_KEPT_OBSERVATIONS)(model.format.observation)
        self.reset([], [])

    # The rollout, turn by turn -------------------------------------------------------------------------------------

    def reset(self, indices: Sequence[int], instructions: Sequence[str]) -> None:
        """Begin a batch of episodes, numbered as the caller likes; earlier ones are dropped."""
        self.trajectories: dict[int, Trajectory] = {}
        self._turns: dict[int, int] = {}
        self._streams: dict[int, np.random.Generator] = {}
        self._windows: dict[int, Window] = {}
        self._writing: dict[int, _Reply] = {}
        self._closing: list[int] = []
        self.sequences = CachedSequences(self.model)
        self.join(indices, instructions)

    def join(self, indices: Sequence[int], instructions: Sequence[str]) -> None:
        """Begin further episodes beside those that are being played."""
        for index, text in zip(indices, instructions, strict=True):
            prompt = self.model.format.prompt(text)
            self.rejoin(index, prompt, turn=0)
            if self.history_turns is not None:
                self._windows[index] = Window(prompt, self._encoded, self.history_turns)

    def act(self, observations: Sequence[str], indices: Sequence[int]) -> list[str]:
        """Read an observation and write a reply, for each of some live episodes.

        Returns:
            The replies' texts, without their end token and without what was sampled past a stop text, in the order of
            `indices`. The ids past it are kept: they were sampled.
        """
        replies: dict[int, str] = {}
        for index, observation in zip(indices, observations, strict=True):
            self.observe(index, observation)
        while len(replies) < len(indices):
            replies |= self.advance([index for index in indices if index not in replies])
        return [replies[index] for index in indices]

    def value(self, observations: Sequence[str], indices: Sequence[int]) -> list[float]:
        """Read a last observation and estimate what would have followed, for each of some live episodes."""
        for index, text in zip(indices, observations, strict=True):
            self._hear(index, text)
        with torch.inference_mode():
            return self.model.values(self.sequences.read(indices)).tolist()

    def release(self, indices: Sequence[int]) -> None:
        """Say that these episodes have ended, so that others can have the memory of their keys and values."""
        for index in indices:
            self.sequences.release(index)

    # The rollout, token by token -----------------------------------------------------------------------------------

    def observe(self, index: int, observation: str) -> None:
        """Give a live episode its next observation; the reply to it is written by `advance`.

        Raises:
            ValueError: If `max_tokens` leave no room for a reply.
        """
        self._hear(index, observation)
        self.reply(index)

    def rejoin(self, index: int, ids: Sequence[int], turn: int) -> None:
        """Begin an episode in its midst, with a transcript that was read or written elsewhere.

        Args:
            index: Number of the episode; its draws are those of this number, whatever was drawn elsewhere.
            ids: The transcript, up to where a reply begins (then `reply` goes on) or has ended (then `observe` does).
            turn: How many replies it holds. They are read and not learned from.

        Raises:
            ValueError: If it holds replies, but `history_turns` would have some of them forgotten.
        """
        if turn and self.history_turns is not None:
            raise ValueError(f"history_turns must be None to go on with a whole transcript, got {self.history_turns}")
        self.trajectories[index] = Trajectory(on_policy=self.sampling.is_plain)
        self.trajectories[index].append_given(list(ids), "prompt")
        self._turns[index] = turn
        self._streams[index] = np.random.default_rng([*self._seed, index])
        self.sequences.append(index, ids)

    def reply(self, index: int) -> None:
        """Have a live episode's next reply written, by `advance`.

        Raises:
            ValueError: If `max_tokens` leave no room for it.
        """
        read = self.sequences.ids(index)
        room = self.max_tokens - len(read)
        if room < _SHORTEST_REPLY:
            raise ValueError(f"max_tokens={self.max_tokens}: episode {index} has no room for a reply")
        if index in self._windows:
            self.trajectories[index].contexts.append(read)
        self._writing[index] = _Reply(min(self.max_new_tokens, room - 1))  # and the end token of a reply that is cut

    def has_room(self, index: int, observation: str) -> bool:
        """Whether there would be room for a reply after an observation."""
        if index in self._windows:
            read = self._windows[index].context(observation)
        else:
            read = [*self.sequences.ids(index), *self._observation(index, observation)]
        return len(read) + _SHORTEST_REPLY <= self.max_tokens

    def close(self, index: int, observation: str) -> None:
        """Let a live episode end with an observation that nothing answers.

        With the next `advance` it is read, as far as there is room for it, the critic's estimate of what would have
        followed becomes the trajectory's `bootstrap_value`, and others can have the memory.
        """
        self._hear(index, observation)
        self._closing.append(index)

    @property
    def is_busy(self) -> bool:
        """Whether there is something to read or write."""
        return bool(self._writing or self._closing)

    @torch.inference_mode()
    def advance(self, indices: Sequence[int] | None = None) -> dict[int, str]:
        """Read all that is new, and sample the next token of each episode that is writing.

        Args:
            indices: Those that write; by default all that were given an observation.

        Returns:
            The texts of replies that are complete now, by episode; see `act`.
        """
        writing, closing = list(self._writing) if indices is None else list(indices), self._closing
        self._closing = []
        if not writing and not closing:
            return {}
        hidden = self.sequences.read([*writing, *closing])
        values = self.model.values(hidden).tolist()
        for index, value in zip(closing, values[len(writing) :], strict=True):
            self.trajectories[index].bootstrap_value = value
            self.sequences.release(index)
        uniforms = torch.tensor([self._streams[index].random() for index in writing], dtype=torch.float64)
        logits = self.model.logits(hidden[: len(writing)])
        tokens, log_probs = sample(logits, uniforms.to(logits.device), self.sampling)
        drawn = zip(writing, tokens.tolist(), log_probs.tolist(), values[: len(writing)], strict=True)
        return {each[0]: self._end(each[0]) for each in drawn if self._write(*each)}

    # Bookkeeping ---------------------------------------------------------------------------------------------------

    def _observation(self, index: int, text: str) -> list[int]:
        return self._encoded(text, first=self._turns[index] == 0)

    def _hear(self, index: int, text: str) -> None:
        """Let an observation be read, as far as there is room; past a window that has moved, the model starts over."""
        ids, segment = self._observation(index, text), "observation" if self._turns[index] else "prompt"
        if index not in self._windows:
            self._give(index, ids[: self.max_tokens - len(self.sequences.ids(index))], segment)
            return
        self.trajectories[index].append_given(ids, segment)
        self.sequences.release(index)
        self.sequences.append(index, self._windows[index].hear(text)[: self.max_tokens])

    def _give(self, index: int, ids: list[int], segment: Segment) -> None:
        self.trajectories[index].append_given(ids, segment)
        self.sequences.append(index, ids)

    def _write(self, index: int, token: int, log_prob: float, value: float) -> bool:
        """Add a token to a reply; returns whether the reply is complete."""
        reply = self._writing[index]
        reply.ids.append(token)
        reply.log_probs.append(log_prob)
        reply.values.append(value)
        self.sequences.append(index, [token])
        if token == self.model.format.end or len(reply.ids) == reply.limit:
            return True
        if not self.stop:
            return False
        tail = self.model.decode(reply.ids[-self._tail :])  # a token is at least a byte, so that no stop text is longer
        return any(text in tail for text in self.stop)

    def _end(self, index: int) -> str:
        """Put a complete reply into its trajectory; returns its text."""
        reply, trajectory = self._writing.pop(index), self.trajectories[index]
        trajectory.append_sampled(reply.ids, "action", reply.log_probs, reply.values, self._turns[index])
        trajectory.segment[-len(reply.ids) :] = reply_segments(reply.ids, self.model.decode)
        self._turns[index] += 1
        ending = [] if reply.ids[-1] == self.model.format.end else [self.model.format.end]  # cut by a stop or a limit
        self._give(index, ending, "observation")
        if index in self._windows:
            self._windows[index].answer([*reply.ids, *ending])
        text = self.model.decode(reply.ids)
        ends = [text.find(stop) + len(stop) for stop in self.stop if stop in text]
        return text[: min(ends, default=len(text))]
