"""Whole episodes as raw text, sampled from the model that TRL trains."""

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from turngym.lazy import require

_MARKS = ("\x02first\x03", "\x02reply\x03", "\x02next\x03")
_THREADS = 16


class Player(Protocol):
    """What a rollout asks of an environment; `TRLEnvironment` is one."""

    stop_strings: tuple[str, ...]
    total_reward: float
    success: bool
    over: bool

    def reset(self, seed: int | None = None) -> str:
        """Begin an episode."""

    def act(self, action: str) -> str:
        """Play one turn."""


class TextRollout:
    """A `rollout_func` for TRL's GRPOTrainer: every reply is the text that the environment reads.

    The transcript only grows, and sampled ids are never encoded again. Replies are sampled with the trainer's model
    and generation settings, through transformers; each turn reads the transcript anew. Under DeepSpeed ZeRO-3 it does
    not work, since processes would have to play equally many turns.

    Args:
        factory: Makes environments.
        max_new_tokens: Longest reply of a turn, in tokens.
    """

    def __init__(self, factory: Callable[[], Player], max_new_tokens: int) -> None:
        self._factory, self._max_new_tokens = factory, max_new_tokens
        self._players: list[Player] = []

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """Play one episode for each prompt.

        Args:
            prompts: Messages; the last one holds the instructions and the `seed`.
            trainer: The trainer.

        Returns:
            `prompt_ids`, and `completion_ids` with `logprobs` (nats, 0 where not sampled) and `env_mask` (1 exactly
            where sampled); `total_reward` and `success` for reward functions.

        Raises:
            ValueError: If a prompt has no seed, or the trainer samples with vLLM.
        """
        if trainer.use_vllm:
            raise ValueError("rollout_func samples with transformers: use environment_factory, or use_vllm=False")
        while len(self._players) < len(prompts):
            self._players.append(self._factory())
        players = self._players[: len(prompts)]
        episodes = [_begin(player, prompt, trainer) for player, prompt in zip(players, prompts, strict=True)]
        live = episodes
        with ThreadPoolExecutor(_THREADS) as threads:
            while live:
                replies = _sample(trainer, live, self._max_new_tokens)
                list(threads.map(_Episode.play, live, replies))
                live = [episode for episode in live if not episode.ended]
        return {
            "prompt_ids": [episode.prompt_ids for episode in episodes],
            "completion_ids": [episode.completion_ids for episode in episodes],
            "logprobs": [episode.log_probs for episode in episodes],
            "env_mask": [episode.env_mask for episode in episodes],
            "total_reward": [player.total_reward for player in players],
            "success": [player.success for player in players],
        }


@dataclass(frozen=True)
class _Reply:
    """What was sampled in one turn, and the text that counts."""

    ids: list[int]
    log_probs: list[float]
    text: str
    is_ended: bool  # by an end token, the last of the ids


@dataclass(frozen=True)
class _Format:
    """What a chat template puts around messages; plain lines where a tokenizer has none."""

    tokenizer: Any
    opening: list[int]  # before the first observation
    turn_change: list[int]  # between a reply and the next observation
    reply_opening: list[int]  # between an observation and the reply

    @classmethod
    def of(cls, tokenizer: Any, before: list[Any], **kwargs: Any) -> "_Format":
        """Read the pieces off one rendered conversation that goes on after the messages `before`."""
        if tokenizer.chat_template is None:
            newline = _encode(tokenizer, "\n")
            return cls(tokenizer, list(tokenizer("")["input_ids"]), newline, newline)
        roles = ("user", "assistant", "user")
        messages = [{"role": role, "content": mark} for role, mark in zip(roles, _MARKS, strict=True)]
        text = tokenizer.apply_chat_template([*before, *messages], tokenize=False, add_generation_prompt=True, **kwargs)
        opening, _, rest = text.partition(_MARKS[0])
        turn_change, _, reply_opening = rest.partition(_MARKS[1])[2].partition(_MARKS[2])
        ids = [_encode(tokenizer, piece, is_template=True) for piece in (opening, turn_change, reply_opening)]
        return cls(tokenizer, *ids)

    def first(self, text: str) -> list[int]:
        """The prompt: everything up to the first reply."""
        return [*self.opening, *_encode(self.tokenizer, text), *self.reply_opening]

    def next(self, text: str, reply: _Reply) -> list[int]:
        """What stands between a reply and the one after it; an end token that was sampled is not written again."""
        skip = int(reply.is_ended and self.turn_change[:1] == reply.ids[-1:])
        return [*self.turn_change[skip:], *_encode(self.tokenizer, text), *self.reply_opening]


def _encode(tokenizer: Any, text: str, *, is_template: bool = False) -> list[int]:
    """Ids of a text; control tokens spelled out in it are plain characters unless it is the template's."""
    return list(tokenizer(text, add_special_tokens=False, split_special_tokens=not is_template)["input_ids"])


@dataclass
class _Episode:
    """One episode and its transcript."""

    player: Player
    form: _Format
    end: int  # the token that ends a completion for TRL
    budget: int  # the longest completion
    prompt_ids: list[int]
    completion_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    env_mask: list[int] = field(default_factory=list)
    ended: bool = False

    @property
    def room(self) -> int:
        """Tokens that the completion may still grow by."""
        return self.budget - len(self.completion_ids)

    def play(self, reply: _Reply) -> None:
        """Write a reply down, give it to the environment, and write down what that says."""
        self._append(reply.ids, reply.log_probs, sampled=True)
        observation = self.player.act(reply.text)
        if self.player.over:
            given = [] if reply.is_ended or not self.room else [self.end]  # so that TRL sees a finished completion
        else:
            given = self.form.next(observation, reply)
        self.ended = self.player.over or len(given) >= self.room
        if self.player.over or not self.ended:
            self._append(given, [0.0] * len(given), sampled=False)

    def _append(self, ids: list[int], log_probs: list[float], *, sampled: bool) -> None:
        self.completion_ids += ids
        self.log_probs += log_probs
        self.env_mask += [int(sampled)] * len(ids)


def _begin(player: Player, prompt: Any, trainer: Any) -> _Episode:
    seed = prompt[-1].get("seed") if isinstance(prompt, list) else None
    if seed is None:
        raise ValueError("every prompt must end with a message that holds a seed: see turngym.wrappers.trl.spec")
    tokenizer = trainer.processing_class
    form = _Format.of(tokenizer, prompt[:-1], **trainer.chat_template_kwargs)
    prompt_ids = form.first(prompt[-1]["content"] + player.reset(seed=seed))
    return _Episode(player, form, tokenizer.eos_token_id, trainer.max_completion_length, prompt_ids)


class _Recorder:
    """A logits processor that changes nothing: keeps the log-probability of each sampled token, not the whole table."""

    def __init__(self, temperature: float) -> None:
        self._temperature, self._last = temperature, None
        self.log_probs: list[Any] = []  # one (rows, 1) a token

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.note(input_ids)
        self._last = (scores.float() / self._temperature).log_softmax(-1)
        return scores

    def note(self, input_ids: Any) -> None:
        """Look up the token that was drawn from the scores seen last."""
        if self._last is not None:
            self.log_probs.append(self._last.gather(-1, input_ids[:, -1:]))


def _sample(trainer: Any, episodes: Sequence[_Episode], max_new_tokens: int) -> list[_Reply]:
    """Sample one reply for each episode."""
    torch, tokenizer = require("torch", "trl"), trainer.processing_class
    rows = [episode.prompt_ids + episode.completion_ids for episode in episodes]
    width, device = max(map(len, rows)), trainer.accelerator.device
    ids = torch.tensor([[tokenizer.pad_token_id] * (width - len(row)) + row for row in rows], device=device)
    starts = torch.tensor([width - len(row) for row in rows], device=device)
    stop, config = episodes[0].player.stop_strings, copy.deepcopy(trainer.generation_config)
    config.max_new_tokens = min(max_new_tokens, max(episode.room for episode in episodes))
    config.stop_strings = list(stop) or None
    recorder = _Recorder(trainer.temperature)
    unwrapped = require("trl.models", "trl").unwrap_model_for_generation(
        trainer.model_wrapped, trainer.accelerator, generation_kwargs=trainer.generation_kwargs
    )
    with unwrapped as model, torch.no_grad():
        output = model.generate(
            input_ids=ids,
            attention_mask=(torch.arange(width, device=device) >= starts[:, None]).long(),
            generation_config=config,
            logits_processor=[recorder],
            tokenizer=tokenizer,
        )
    recorder.note(output)
    sampled, log_probs = output[:, width:].tolist(), torch.cat(recorder.log_probs, 1).tolist()
    return [
        _reply(tokenizer, trainer.eos_token_ids, stop, row[: episode.room], values)
        for episode, row, values in zip(episodes, sampled, log_probs, strict=True)
    ]


def _reply(tokenizer: Any, ends: list[int], stop: Sequence[str], ids: list[int], log_probs: list[float]) -> _Reply:
    """Cut off what the batch added after the reply's own end, and the text after a stop text."""
    end = next((index for index, token in enumerate(ids) if token in ends), len(ids))
    body = ids[:end]
    while body and body[-1] == tokenizer.pad_token_id:
        body.pop()
    text = str(tokenizer.decode(body, skip_special_tokens=False, clean_up_tokenization_spaces=False))
    found = [text.index(mark) + len(mark) for mark in stop if mark in text]
    is_ended = not found and end < len(ids)
    length = len(body) + is_ended
    return _Reply(ids[:length], log_probs[:length], text[: min(found)] if found else text, is_ended)
