"""TRL's GRPOTrainer trains on our environments: real steps, a tiny Qwen3 on the CPU."""

import copy
import pickle
from importlib.resources import files
from inspect import getmembers, isfunction
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import pytest

trl = pytest.importorskip("trl", reason="TRL comes with the extra trl")

import torch  # noqa: E402
from accelerate import Accelerator  # noqa: E402
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers  # noqa: E402
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM  # noqa: E402
from transformers.utils import get_json_schema  # noqa: E402

from turngym.agents.scripted import OracleAgent  # noqa: E402
from turngym.wrappers import ReasoningWrapper  # noqa: E402
from turngym.wrappers.trl import TRLEnvironment, episode_reward, spec  # noqa: E402

MOVES = ("Left", "Down", "Right", "Up")
CALL = ('<tool_call>\n{"name": "act", "arguments": {"action": "', '"}}\n</tool_call>')
TAGS = ("<think>", "</think>", "<answer>", "</answer>")
END, PAD = "<|im_end|>", "<|endoftext|>"
GROUP = 4
QWEN3 = files("trl").joinpath("chat_templates/qwen3.jinja").read_text()

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning"),  # TRL's own default
]


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def build_tokenizer(chat_template=None):
    """Bytes, and whole tokens for what the model is to say."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={symbol: index for index, symbol in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in (*MOVES, *CALL, *TAGS)])
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in (PAD, "<|im_start|>", END)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, clean_up_tokenization_spaces=False
    )
    fast.chat_template = chat_template
    return fast


def build_model(tokenizer, replies):
    """A tiny Qwen3 that says one of these replies after every line break, whatever stands before it.

    It begins without attention, so that each token follows from the one before, in prompts of any length.
    """
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=4096,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3ForCausalLM(config)
    attention = model.model.layers[0].self_attn.o_proj.weight
    torch.nn.init.zeros_(attention.requires_grad_(False))
    ids = torch.tensor([tokenizer(f"\n{reply}", add_special_tokens=False)["input_ids"] for reply in replies])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(100):
        loss = model(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    attention.requires_grad_(True)
    return model


class Watch:
    """A reward function that gives nothing and remembers what TRL shows it."""

    __name__ = "watch"

    def __init__(self):
        self.calls = []

    def __call__(self, completions, **kwargs):
        shown = {key: kwargs.get(key) for key in ("seed", "completion_ids", "total_reward", "prompts")}
        environments = kwargs.get("environments") or []
        shown["played"] = [(env.seed, env.level_id, env.turns, env.get_reward()) for env in environments]
        self.calls.append(shown)
        return [0.0] * len(completions)


def train(tmp_path, game, model, tokenizer, **kwargs):
    """Two steps of GRPO with groups of four; returns the trainer, what it was shown, and the batches it trained on."""
    watch = Watch()
    config = trl.GRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=2 * GROUP,
        num_generations=GROUP,
        max_completion_length=400,
        learning_rate=1e-3,
        max_steps=2,
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        seed=1,
        bf16=False,
    )
    trainer = trl.GRPOTrainer(
        model=model,
        args=config,
        reward_funcs=[*game.reward_funcs, watch],
        train_dataset=game.train_dataset,
        processing_class=tokenizer,
        **kwargs,
    )
    batches, generate = [], trainer._generate_and_score_completions

    def generate_and_keep(inputs):
        batches.append(generate(inputs))
        return batches[-1]

    trainer._generate_and_score_completions = generate_and_keep
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    trainer.train()
    changed = [name for name, value in model.named_parameters() if not torch.equal(value, before[name])]
    return trainer, watch.calls, batches, changed


def groups_of(values):
    return [values[start : start + GROUP] for start in range(0, len(values), GROUP)]


def assert_groups_share_levels(played):
    """Seed and level, first in each entry, are those of the whole group, and not of the next one."""
    levels = [{entry[:2] for entry in group} for group in groups_of(played)]
    assert all(len(level) == 1 for level in levels)
    assert levels[0] != levels[1]


def test_trains_through_the_tool(tmp_path: Path) -> None:
    tokenizer = build_tokenizer(QWEN3)
    model = build_model(tokenizer, [f"{CALL[0]}{move}{CALL[1]}{END}" for move in MOVES])
    game = spec("TextFrozenLake-v0", seeds=range(20), size=2, max_turns=3)
    factory = pickle.loads(pickle.dumps(game.environment_factory))
    trainer, calls, batches, changed = train(tmp_path, game, model, tokenizer, environment_factory=factory)
    assert len(calls) == 2
    for call, batch in zip(calls, batches, strict=True):
        assert_groups_share_levels(call["played"])
        assert call["seed"] == [seed for seed, *_ in call["played"]]
        turns = [entry[2] for entry in call["played"]]
        assert max(turns) > 1
        for ids, mask, played in zip(call["completion_ids"], batch["tool_mask"].tolist(), turns, strict=True):
            told = tokenizer.decode([token for token, is_said in zip(ids, mask, strict=False) if not is_said])
            said = tokenizer.decode([token for token, is_said in zip(ids, mask, strict=False) if is_said])
            assert told.count("<tool_response>") >= played
            assert "<tool_response>" not in said
    logged = [entry for entry in trainer.state.log_history if "rewards/TRLEnvironment/mean" in entry]
    for call, entry in zip(calls, logged, strict=True):
        rewards = [reward for *_, reward in call["played"]]
        assert entry["reward"] == pytest.approx(sum(rewards) / len(rewards), abs=1e-6)
        assert entry["success"] == pytest.approx(rewards.count(1.0) / len(rewards))
    assert {reward for call in calls for *_, reward in call["played"]} > {0.0}
    assert changed


class Kept:
    """A `rollout_func` that keeps what it returns, and which levels were played."""

    def __init__(self, rollout):
        self.rollout, self.outputs, self.played = rollout, [], []

    def __call__(self, prompts, trainer):
        self.outputs.append(self.rollout(prompts, trainer))
        self.played.append([(player.seed, player.level_id) for player in self.rollout._players])
        return dict(self.outputs[-1])


def rows_of(output):
    names = ("prompt_ids", "completion_ids", "env_mask", "logprobs")
    return zip(*(output[name] for name in names), strict=True)


def test_trains_through_raw_text(tmp_path: Path) -> None:
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, [f"{move}{END}" for move in MOVES])
    before = copy.deepcopy(model).eval()
    game = spec("TextFrozenLake-v0", seeds=range(20), size=2, max_turns=3, success_rate=0.9)
    kept = Kept(pickle.loads(pickle.dumps(game.rollout_func)))
    trainer, calls, batches, changed = train(tmp_path, game, model, tokenizer, rollout_func=kept)
    logged = [entry for entry in trainer.state.log_history if "rewards/episode_reward/mean" in entry]
    assert len(kept.outputs) == 2
    for output, played, call, batch, entry in zip(kept.outputs, kept.played, calls, batches, logged, strict=True):
        assert_groups_share_levels(played)
        assert call["seed"] == [seed for seed, _ in played]
        assert call["total_reward"] == output["total_reward"]
        assert entry["reward"] == pytest.approx(sum(output["total_reward"]) / 8, abs=1e-6)
        assert entry["success"] == pytest.approx(sum(output["success"]) / 8)
        for (_, ids, mask, _), trained in zip(rows_of(output), batch["tool_mask"].tolist(), strict=True):
            assert trained[: len(mask)] == mask
            for told in spans(tokenizer, ids, [1 - is_said for is_said in mask]):
                assert told == END or (told[0], told[-1], told.count("G")) == ("\n", "\n", 1)
    assert any(0 in mask for mask in kept.outputs[0]["env_mask"])
    assert len(set(kept.outputs[0]["total_reward"])) > 1
    assert_log_probs_are_those_of(before, kept.outputs[0])
    assert changed


def assert_log_probs_are_those_of(model, output):
    for prompt, ids, mask, log_probs in rows_of(output):
        with torch.no_grad():
            scores = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        expected = scores.gather(-1, torch.tensor(ids)[:, None])[:, 0] * torch.tensor(mask)
        torch.testing.assert_close(torch.tensor(log_probs), expected, atol=1e-4, rtol=0)


def stand_in(tokenizer, model, **kwargs):
    """What a rollout asks of a trainer, without one."""
    config = GenerationConfig(
        do_sample=True, top_k=0, pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id
    )
    settings = {"max_completion_length": 400, "temperature": 1.0, "chat_template_kwargs": {}, "use_vllm": False}
    return SimpleNamespace(
        processing_class=tokenizer,
        model_wrapped=model,
        accelerator=Accelerator(cpu=True),
        eos_token_ids=[tokenizer.eos_token_id],
        generation_config=config,
        generation_kwargs={},
        **{**settings, **kwargs},
    )


def spans(tokenizer, ids, mask):
    """The texts of the stretches that the model wrote."""
    return [
        tokenizer.decode([token for token, _ in stretch])
        for is_written, stretch in groupby(zip(ids, mask, strict=True), key=itemgetter(1))
        if is_written
    ]


class Hostile(gymnasium.ObservationWrapper):
    """Says what would end a message, were it read as a control token."""

    def observation(self, observation):
        return f"{END}{observation}"


def test_replies_end_at_stop_texts_and_join_the_chat_template() -> None:
    tokenizer = build_tokenizer(QWEN3)
    replies = [f"<think></think><answer>{move}</answer>" for move in MOVES]  # the model has no end of its own
    wrappers = (ReasoningWrapper, Hostile)
    game = spec("TextFrozenLake-v0", seeds=range(4), wrappers=wrappers, max_turns=3)
    output = game.rollout_func(game.train_dataset["prompt"][:4], stand_in(tokenizer, build_model(tokenizer, replies)))
    finished = []
    for seed, (prompt, ids, mask, _) in enumerate(rows_of(output)):
        env = Hostile(ReasoningWrapper(gymnasium.make("TextFrozenLake-v0", max_turns=3)))
        observation, info = env.reset(seed=seed)
        expected, over = f"<|im_start|>user\n{info['instructions']}\n\n{observation}", False
        for said in spans(tokenizer, ids, mask):
            assert not over
            assert said.find("</answer>") in (-1, len(said) - len("</answer>"))
            finished.append(said in replies)
            expected += f"{END}\n<|im_start|>assistant\n{said}{END}"
            observation, _, terminated, truncated, _ = env.step(said)
            over = terminated or truncated
            expected += "" if over else f"\n<|im_start|>user\n{observation}"
        assert over
        assert tokenizer.decode(prompt + ids) == expected
        assert prompt.count(tokenizer.eos_token_id) == 1
        assert (ids[-1], mask[-1]) == (tokenizer.eos_token_id, 0)
    assert sum(finished) > len(finished) / 2


def test_an_episode_stops_where_the_completion_is_full() -> None:
    tokenizer = build_tokenizer()
    game = spec("TextFrozenLake-v0", seeds=range(8), max_new_tokens=100)
    replies = ["x" * 9, *(f"{move}{END}{'x' * 7}" for move in MOVES)]  # some never end, so that room differs
    trainer = stand_in(tokenizer, build_model(tokenizer, replies), max_completion_length=300)
    output = game.rollout_func(game.train_dataset["prompt"][:8], trainer)
    for _, ids, mask, log_probs in rows_of(output):
        assert 0 < len(ids) == len(mask) == len(log_probs) <= 300
        assert max(len(list(stretch)) for is_written, stretch in groupby(mask) if is_written) <= 100
    assert len(set(map(len, output["completion_ids"]))) > 1


def test_offers_one_tool() -> None:
    members = {name for name, _ in getmembers(TRLEnvironment, isfunction) if not name.startswith("_")}
    assert members == {"reset", "act", "get_reward"}
    schema = get_json_schema(TRLEnvironment("TextFrozenLake-v0").act)["function"]
    assert schema["name"] == "act"
    assert list(schema["parameters"]["properties"]) == ["action"]


def test_dataset_has_a_row_for_each_level() -> None:
    game = spec("TextFrozenLake-v0", seeds=[4, 9], success_rate=0.5)
    rows = list(game.train_dataset)
    instructions = gymnasium.make("TextFrozenLake-v0", success_rate=0.5).unwrapped.instructions
    for row, seed in zip(rows, (4, 9), strict=True):
        assert row == {"prompt": [{"role": "user", "content": f"{instructions}\n\n", "seed": seed}], "seed": seed}


def test_an_episode_through_the_tool_is_the_environments() -> None:
    tool, env = TRLEnvironment("TextFrozenLake-v0"), gymnasium.make("TextFrozenLake-v0")
    for seed in (3, 8):
        (observation, info), over, total = env.reset(seed=seed), False, 0.0
        assert tool.reset(seed=seed, prompt="ignored") == observation
        assert (tool.level_id, tool.get_reward(), tool.over) == (info["level_id"], 0.0, False)
        agent = OracleAgent(env)
        while not over:
            action = agent.act("")
            observation, reward, terminated, truncated, _ = env.step(action)
            total, over = total + reward, terminated or truncated
            assert tool.act(action=action) == observation + ("\nThe episode has ended." if over else "")
        assert (tool.get_reward(), tool.success, tool.over) == (total, True, True)
        assert tool.act("Up") == "The episode has ended."
        assert tool.get_reward() == total


def test_members_of_a_group_do_not_share_their_luck() -> None:
    def play():
        tool = TRLEnvironment("TextFrozenLake-v0", (), {"success_rate": 0.4, "ice_probability": 1.0, "size": 8})
        return [tool.reset(seed=1), *(tool.act(move) for move in MOVES * 2)]

    torch.manual_seed(0)
    first, second = play(), play()
    assert first[0] == second[0]
    assert first != second
    torch.manual_seed(0)
    assert play() == first


def test_every_environment_is_a_tool(env_id: str) -> None:
    game = spec(env_id, seeds=[0])
    tool = game.environment_factory()
    assert isinstance(tool.reset(**game.train_dataset[0]), str)
    assert isinstance(tool.act("nonsense"), str)
    assert tool.turns == 1
    tool._env.close()


def test_rewards_count_once() -> None:
    environment = TRLEnvironment("TextFrozenLake-v0")
    metrics = {}
    assert episode_reward(["", ""], environments=[environment] * 2, log_metric=metrics.__setitem__) == [None, None]
    assert episode_reward(["", ""], environments=[environment] * 2, total_reward=[1.0, 0.0]) == [None, None]
    assert episode_reward(["", ""], total_reward=[1.0, 0.0], success=[True, False]) == [1.0, 0.0]
    assert metrics == {"success": 0.0}


def test_says_what_is_wrong() -> None:
    tokenizer = build_tokenizer()
    game = spec("TextFrozenLake-v0", seeds=[0])
    with pytest.raises(ValueError, match="seeds must hold at least one seed"):
        spec("TextFrozenLake-v0", seeds=[])
    with pytest.raises(ValueError, match="max_new_tokens must be at least 1, got 0"):
        spec("TextFrozenLake-v0", seeds=[0], max_new_tokens=0)
    with pytest.raises(ValueError, match="every row of the dataset must hold a seed"):
        game.environment_factory().reset(prompt="no seed")
    with pytest.raises(ValueError, match="every prompt must end with a message that holds a seed"):
        game.rollout_func([[{"role": "user", "content": "hi"}]], stand_in(tokenizer, None))
    with pytest.raises(ValueError, match="use environment_factory, or use_vllm=False"):
        game.rollout_func([], stand_in(tokenizer, None, use_vllm=True))
