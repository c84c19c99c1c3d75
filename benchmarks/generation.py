"""Multi-turn generation against transformers' own, in one run: CPU time, tokens read, memory, and what rounding does.

    python benchmarks/generation.py                        # tiny; minutes on 2 cores
    python benchmarks/generation.py --model smollm2-135m --repeats 1 --every 3

Sixteen episodes of ten turns side by side: a prompt of 300 tokens, no two alike, then replies of a fixed length and
observations of 60 tokens. Tokens are random ids and replies are sampled, so that no text is easier than another; no
reply may end early. All sides have the same weights in float32, and two threads.

Ours is `LLMPolicy` as it plays, which also gives each token's log-probability and the critic's value; the others only
sample. A baseline that starts over with the whole history can be measured at any turn by itself: with `--every 3` it is
measured at turns 1, 4, 7 and 10, and the turns between are interpolated. Time is CPU time of the process, both threads
together, after a run to warm up.
"""

import argparse
import contextlib
import copy
import ctypes
import gc
import logging
import os
import re
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "0")  # a thread that waits for the other must not count as one that works

import gymnasium
import numpy as np
import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.generation import ContinuousBatchingConfig

import turngym  # noqa: F401  # registers the environments
from turngym.agents import LLMPolicy, collect_rollout, generation
from turngym.agents.models import PolicyModel, load_policy_model
from turngym.agents.packed import PackedCache

THREADS = 2


@dataclass(frozen=True)
class Shape:
    """How long everything is, in tokens; observations hold what closes the reply before them."""

    reply: int
    prompt: int = 300
    observation: int = 60
    turns: int = 10
    batch: int = 16

    def history(self, turn: int) -> int:
        """What stands before the reply of a turn, the first of which is 0."""
        return self.prompt + turn * (self.reply + self.observation)


class RandomTexts:
    """Stands in for a chat template: a text is the number of random tokens that it becomes."""

    def __init__(self, vocabulary: int, end: int) -> None:
        self.end, self._vocabulary, self._rng = end, vocabulary, np.random.default_rng(0)

    def prompt(self, text: str) -> list[int]:
        """So many tokens."""
        return self._rng.integers(10, self._vocabulary, int(text)).tolist()

    def observation(self, text: str, *, first: bool) -> list[int]:
        """So many tokens, after what tells observations apart."""
        return self.prompt(text.partition(":")[0])


class Endless(PolicyModel):
    """Never ends a reply, as `min_new_tokens` has it in transformers."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Those of the model, but for the end token."""
        return super().logits(hidden).index_fill(-1, torch.tensor([self.format.end]), -torch.inf)


Turns = Iterator[int]
"""Plays a turn of all episodes at each step, and says how many tokens it has read in it."""


def ours(model: PolicyModel, shape: Shape) -> Turns:
    policy = LLMPolicy(model, max_new_tokens=shape.reply, max_tokens=10**6)
    policy.reset(range(shape.batch), [str(shape.prompt - 1)] * shape.batch)
    before = 0
    for turn in range(shape.turns):
        length = shape.observation - 1 if turn else 1  # the end token of the reply before is the other one
        policy.act([f"{length}:{turn} {index}" for index in range(shape.batch)], range(shape.batch))
        yield policy.sequences.tally.tokens - before
        before = policy.sequences.tally.tokens


def whole_history(lm: Any, shape: Shape, turns: Sequence[int]) -> Turns:
    for turn in turns:
        ids = random_ids(lm, shape.batch, shape.history(turn))
        lm.generate(ids, attention_mask=torch.ones_like(ids), generation_config=sampled(lm, shape))
        yield shape.batch * (shape.history(turn) + shape.reply - 1)


def kept_cache(lm: Any, shape: Shape, turns: Sequence[int]) -> Turns:
    ids, cache = random_ids(lm, shape.batch, shape.prompt), None
    for turn in turns:
        given = {} if cache is None else {"past_key_values": cache}
        config = sampled(lm, shape)
        config.return_dict_in_generate = True
        output = lm.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config, **given)
        cache = output.past_key_values
        ids = torch.cat([output.sequences, random_ids(lm, shape.batch, shape.observation)], 1)
        yield shape.batch * (shape.observation + shape.reply if turn else shape.prompt + shape.reply - 1)


def continuous(lm: Any, shape: Shape, turns: Sequence[int]) -> Turns:
    """`generate_batch` at its best: a manager that lives on and finds the history in its prefix cache."""
    rows, page = random_ids(lm, shape.batch, shape.prompt).tolist(), 32
    blocks = shape.batch * (2 + shape.history(shape.turns) // page)
    config = ContinuousBatchingConfig(num_blocks=blocks, page_size=page, max_batch_tokens=8192)
    settings = {"generation_config": sampled(lm, shape), "continuous_batching_config": config}
    read: list[int] = []
    hook = lm.get_input_embeddings().register_forward_hook(lambda module, given, _: read.append(given[0].numel()))
    try:
        for _ in turns:
            replies = lm.generate_batch(rows, persistent_manager=True, **settings).values()
            new = random_ids(lm, shape.batch, shape.observation).tolist()
            rows = [[*row, *each.generated_tokens, *more] for row, each, more in zip(rows, replies, new, strict=True)]
            yield sum(read)
            read.clear()
    finally:
        hook.remove()
        lm.destroy_cached_continuous_batching_manager()


def random_ids(lm: Any, rows: int, length: int) -> Tensor:
    return torch.randint(10, lm.config.vocab_size, (rows, length))


def sampled(lm: Any, shape: Shape) -> GenerationConfig:
    limits = {"min_new_tokens": shape.reply, "max_new_tokens": shape.reply}
    return GenerationConfig(do_sample=True, top_k=0, eos_token_id=3, pad_token_id=0, **limits)


@dataclass
class Played:
    """What ten turns cost: CPU and wall seconds and tokens read of each, and the memory they took at most, in bytes."""

    cpu_s: list[float]
    wall_s: list[float]
    tokens: list[int]
    peak: int


def play(turns: Turns) -> Played:
    played, begin = Played([], [], [], 0), reset_peak()
    clock = time.process_time(), time.perf_counter()
    for tokens in turns:
        now = time.process_time(), time.perf_counter()
        played.cpu_s.append(now[0] - clock[0])
        played.wall_s.append(now[1] - clock[1])
        played.tokens.append(tokens)
        clock = time.process_time(), time.perf_counter()
    played.peak = resident("VmHWM") - begin
    return played


def play_some(method: Callable[..., Turns], lm: Any, shape: Shape, every: int) -> Played:
    """A method that starts over each turn, measured at some turns, the first and the last among them."""
    turns = sorted({*range(0, shape.turns, every), shape.turns - 1})
    some = play(method(lm, shape, turns))
    spread = [np.interp(range(shape.turns), turns, each).tolist() for each in (some.cpu_s, some.wall_s, some.tokens)]
    return Played(spread[0], spread[1], [round(each) for each in spread[2]], some.peak)


def reset_peak() -> int:
    """Give back what is free and forget the highest memory so far; returns what is resident now."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def resident(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


# What is reported ---------------------------------------------------------------------------------------------------


def compare(model: PolicyModel, lm: Any, shape: Shape, repeats: int, every: int) -> None:
    """Ten turns of all sides, repeats in turn, and a single turn."""
    sides: dict[str, Callable[[], Played]] = {
        "ours": lambda: play(ours(model, shape)),
        "(a) generate, whole history": lambda: play_some(whole_history, lm, shape, every),
        "(b) generate, kept cache": lambda: play(kept_cache(lm, shape, range(shape.turns))),
        "(c) generate_batch": lambda: play(continuous(lm, shape, range(shape.turns))),
    }
    print_sides(f"{shape.turns} turns, replies of {shape.reply}", sides, shape, repeats)
    single = replace(shape, turns=1)
    sides = {
        "ours": lambda: play(ours(model, single)),
        "generate": lambda: play(whole_history(lm, single, [0])),
    }
    print_sides(f"one turn, replies of {shape.reply}", sides, single, 2 * repeats)


def print_sides(title: str, sides: dict[str, Callable[[], Played]], shape: Shape, repeats: int) -> None:
    runs: dict[str, list[Played]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            runs[name].append(side())
    cpu, wall = (
        {name: [sum(getattr(each, field)) for each in own] for name, own in runs.items()}
        for field in ("cpu_s", "wall_s")
    )
    print(f"\n### {title}\n")
    print(
        "| side | episodes a CPU second | ours is faster by (CPU) | (wall) | tokens read, first and last turn | all "
        "| peak memory, MiB |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, own in runs.items():
        rate = shape.batch / statistics.median(cpu[name])
        ratios = ["1" if name == "ours" else ratio(times[name], times["ours"]) for times in (cpu, wall)]
        tokens, peak = own[-1].tokens, max(each.peak for each in own) / 2**20
        print(
            f"| {name} | {rate:.3g} | {' | '.join(ratios)} | {tokens[0]:,} and {tokens[-1]:,} | {sum(tokens):,} "
            f"| {peak:,.0f} |",
            flush=True,
        )
    if shape.turns > 1:
        print("\nCPU seconds turn by turn, medians:\n")
        for name, own in runs.items():
            by_turn = [statistics.median(each) for each in zip(*(run.cpu_s for run in own), strict=True)]
            print(f"- {name}: {', '.join(f'{each:.2f}' for each in by_turn)}")


def ratio(theirs: Sequence[float], mine: Sequence[float]) -> str:
    """Median of the repeats' ratios, with the smallest and the largest."""
    each = [one / other for one, other in zip(theirs, mine, strict=True)]
    return f"{statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})"


class Measured(PackedCache):
    """Counts the scores that attention computes, and those that it would without padding."""

    computed = real = 0

    def attend(self, query: Tensor, scale: float | None, window: int | None) -> Tensor:
        """As it is done anyway; all layers do the same, so that the first is counted."""
        read = super().attend(query, scale, window)
        if self._layer == 0 and self._groups:
            Measured.computed += sum(group.rows * group.width * group.length for group in self._groups)
            Measured.real += sum(span.count * span.end for span in self._spans)
        return read


def padding(model: PolicyModel) -> None:
    """Ragged episodes: prompts of 200 to 400 tokens, observations of 20 to 100, replies of 1 to 30, none in step."""
    plain, generation.PackedCache = generation.PackedCache, Measured
    Measured.computed = Measured.real = 0
    rng, read = np.random.default_rng(1), [0]
    hook = model.lm.get_input_embeddings().register_forward_hook(
        lambda module, given, _: read.__setitem__(0, read[0] + given[0].numel())
    )
    policy = LLMPolicy(model, max_new_tokens=30, max_tokens=10**6)
    policy.reset(range(16), [str(rng.integers(199, 400)) for _ in range(16)])
    turns = dict.fromkeys(range(16), 0)
    for index in turns:
        observe(policy, index, 0, rng)
    while policy.is_busy:
        for index in policy.advance():
            turns[index] += 1
            if turns[index] < 10:
                observe(policy, index, turns[index], rng)
    hook.remove()
    generation.PackedCache = plain
    written = sum(len(each.ids) for each in policy.trajectories.values())
    print("\n### Padding, ragged episodes\n")
    print(f"- into the model went {read[0]:,} tokens, of {written:,} in the transcripts, and no padding")
    print(f"- attention computed {Measured.computed / Measured.real - 1:.0%} more scores than it would without padding")


def observe(policy: LLMPolicy, index: int, turn: int, rng: np.random.Generator) -> None:
    policy.max_new_tokens = int(rng.integers(1, 31))
    policy.observe(index, f"{rng.integers(20, 101)}:{turn} {index}")


def flips(name: str, episodes: int) -> None:
    """The same episodes one at a time and sixteen at a time, in float32."""
    model = load_policy_model(name)
    envs = [gymnasium.make("TextFrozenLake-v0") for _ in range(16)]
    one, many = (
        collect_rollout(LLMPolicy(model, max_new_tokens=8), envs[:batch], range(episodes)) for batch in (1, 16)
    )
    differ = [mine.ids != theirs.ids for mine, theirs in zip(one, many, strict=True)]
    same = [pair for pair, other in zip(zip(one, many, strict=True), differ, strict=True) if not other]
    gap = max(abs(np.subtract(mine.log_probs, theirs.log_probs)).max() for mine, theirs in same)
    tokens = sum(sum(each.policy_mask) for each in one)
    print("\n### Rounding, float32, one at a time against sixteen\n")
    print(f"- {sum(differ)} of {episodes} episodes differ, {tokens:,} sampled tokens")
    print(f"- in the others, log-probabilities differ by at most {gap:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny", help="a name, a folder or a hub id")
    parser.add_argument("--replies", type=int, nargs="+", default=[5, 30], help="tokens of a reply")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--every", type=int, default=1, help="measure (a) at every so-manieth turn")
    parser.add_argument("--episodes", type=int, default=128, help="episodes of the comparison of batches; 0 for none")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore", FutureWarning)  # past_key_values has a new name in newer versions
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    base = load_policy_model(arguments.model)
    peer = type(base.lm)(copy.deepcopy(base.lm.config)).eval()
    peer.load_state_dict(base.lm.state_dict(), assign=True)  # the same weights, not twice in memory
    peer.tie_weights()
    peer.set_attn_implementation("sdpa")
    model = Endless(base.lm, base.tokenizer, "endless", RandomTexts(base.lm.config.vocab_size, end=3))  # type: ignore
    with torch.no_grad():
        for reply in arguments.replies:
            warm = Shape(reply=2, prompt=20, observation=10, turns=2)
            for turns in (
                ours(model, warm),
                whole_history(peer, warm, range(2)),
                kept_cache(peer, warm, range(2)),
                continuous(peer, warm, range(2)),
            ):
                play(turns)
            compare(model, peer, Shape(reply), arguments.repeats, arguments.every)
        padding(model)
    if arguments.episodes:
        flips(arguments.model, arguments.episodes)


if __name__ == "__main__":
    main()
