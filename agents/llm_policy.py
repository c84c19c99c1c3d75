"""A language model that plays: chat template, generation and bookkeeping, and no knowledge of any environment."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from turngym.agents.generation import CachedRows, sample
from turngym.agents.models import PolicyModel
from turngym.agents.trajectory import Trajectory, reply_segments

_COMPACT_BELOW = 0.75
"""Finished episodes leave the batch when fewer than this share of its rows are alive: a copy that pays for itself."""


class LLMPolicy:
    """Plays a batch of episodes with one model.

    Observations are appended to a history that never changes; the ids that were sampled are kept as they are. What
    the policy wrote and read of episode `i` grows in `trajectories[i]`.

    Args:
        model: The model.
        temperature: Of sampling; 0 takes the likeliest token. Training needs 1, so that log-probabilities are those
            of the model itself.
        max_new_tokens: Longest reply, its end token included; a reply that reaches it is ended for the policy.
        stop: Texts that end a turn when a reply contains them; the reply ends with the first.
        seed: Seed of the draws. Every episode has a stream of its own, so a reply does not depend on the batch.
    """

    def __init__(
        self,
        model: PolicyModel,
        *,
        temperature: float = 1.0,
        max_new_tokens: int = 16,
        stop: Sequence[str] = (),
        seed: int | Sequence[int] = 0,
    ) -> None:
        if temperature < 0:
            raise ValueError(f"temperature must be at least 0, got {temperature}")
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
        self.model, self.temperature, self.max_new_tokens, self.stop = model, temperature, max_new_tokens, tuple(stop)
        self._seed = [seed] if isinstance(seed, int) else list(seed)
        self.trajectories: dict[int, Trajectory] = {}

    def reset(self, indices: Sequence[int], instructions: Sequence[str]) -> None:
        """Begin a batch of episodes, numbered as the caller likes; earlier ones are dropped."""
        self.trajectories = {index: Trajectory() for index in indices}
        self._turns = dict.fromkeys(indices, 0)
        self._pending: dict[int, list[int]] = {index: [] for index in indices}  # not read yet
        self._streams = {index: np.random.default_rng([*self._seed, index]) for index in indices}
        self._rows, self._released = list(indices), set[int]()
        self._cached = CachedRows(self.model, len(indices))
        for index, text in zip(indices, instructions, strict=True):
            self._give(index, self.model.format.prompt(text))

    def act(self, observations: Sequence[str], indices: Sequence[int]) -> list[str]:
        """Read an observation and write a reply, for each of some live episodes.

        Returns:
            The replies' texts, without their end token and without what was sampled past a stop text, in the order of
            `indices`. The ids past it are kept: they were sampled.
        """
        self._observe(observations, indices)
        replies: dict[int, list[int]] = {index: [] for index in indices}
        live = list(indices)
        while live:
            for index, token, log_prob, value in self._sample(live):
                replies[index].append(token)
                self._pending[index].append(token)
                self.trajectories[index].append_sampled([token], "action", [log_prob], [value], self._turns[index])
            live = [index for index in live if not self._is_complete(replies[index])]
        for index in indices:
            self._turns[index] += 1
            self.trajectories[index].segment[-len(replies[index]) :] = reply_segments(replies[index], self.model.decode)
            if replies[index][-1] != self.model.format.end:  # cut by a stop text or the length
                self._give(index, [self.model.format.end])
        return [self._text(replies[index]) for index in indices]

    def value(self, observations: Sequence[str], indices: Sequence[int]) -> list[float]:
        """Read a last observation and estimate what would have followed, for each of some live episodes."""
        self._observe(observations, indices)
        with torch.inference_mode():
            return self.model.values(self._read(indices)).tolist()

    def release(self, indices: Sequence[int]) -> None:
        """Say that these episodes have ended, so that their keys and values need not be carried along."""
        self._released.update(indices)
        live = [row for row, index in enumerate(self._rows) if index not in self._released]
        if 0 < len(live) < _COMPACT_BELOW * len(self._rows):
            self._cached.keep(live)
            self._rows = [self._rows[row] for row in live]

    def _observe(self, observations: Sequence[str], indices: Sequence[int]) -> None:
        for index, text in zip(indices, observations, strict=True):
            self._give(index, self.model.format.observation(text, first=self._turns[index] == 0))

    def _give(self, index: int, ids: list[int]) -> None:
        self.trajectories[index].append_given(ids, "observation" if self._turns[index] else "prompt")
        self._pending[index] += ids

    def _read(self, indices: Sequence[int]) -> Tensor:
        """Forward what is pending of some episodes, and return the hidden state at the end of each."""
        tokens: dict[int, list[int]] = {}
        for index in indices:
            tokens[index], self._pending[index] = self._pending[index], []
        self._cached.extend([tokens.get(index, []) for index in self._rows])
        place = {index: row for row, index in enumerate(self._rows)}
        return self._cached.hidden[[place[index] for index in indices]]

    def _sample(self, indices: Sequence[int]) -> list[tuple[int, int, float, float]]:
        hidden = self._read(indices)
        uniforms = torch.tensor([self._streams[index].random() for index in indices], dtype=torch.float64)
        with torch.inference_mode():
            tokens, log_probs = sample(self.model.logits(hidden), uniforms, self.temperature)
            values = self.model.values(hidden)
        return list(zip(indices, tokens.tolist(), log_probs.tolist(), values.tolist(), strict=True))

    def _text(self, reply: list[int]) -> str:
        text = self.model.decode(reply)
        ends = [text.find(stop) + len(stop) for stop in self.stop if stop in text]
        return text[: min(ends, default=len(text))]

    def _is_complete(self, reply: list[int]) -> bool:
        if reply[-1] == self.model.format.end or len(reply) >= self.max_new_tokens:
            return True
        return bool(self.stop) and any(text in self.model.decode(reply) for text in self.stop)
