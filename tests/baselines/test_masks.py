"""Interpreter masking: what a program printed is read and never learned, and a wrong mask is caught."""

import copy
import json
from pathlib import Path

import gymnasium
import pytest
import torch

from turngym.agents import LLMPolicy, Trajectory, collect_rollout, tiny
from turngym.agents.models import PolicyModel
from turngym.baselines import ppo_llm
from turngym.baselines.demonstrations import ReplayAgent, demonstrate
from turngym.baselines.masks import check_masks
from turngym.envs.errors import SandboxError
from turngym.envs.splits import split_of

QUESTION, ANSWER = "How much is 17 * 3?", "51"
REPLIES = ["<code>print(17 * 3)</code>", f"<answer>{ANSWER}</answer>"]


@pytest.fixture(scope="module")
def env(tmp_path_factory) -> gymnasium.Env:
    """An environment with one question."""
    from turngym.envs.sandbox import default_sandbox

    try:
        default_sandbox()
    except SandboxError as error:
        pytest.skip(f"no sandbox here: {error}")
    path = tmp_path_factory.mktemp("questions") / "one.jsonl"
    path.write_text(json.dumps({"question": QUESTION, "answer": ANSWER}))
    return gymnasium.make("turngym:CodeInterpreter-v0", dataset=path, split=split_of(QUESTION.lower()))


@pytest.fixture(scope="module")
def model() -> PolicyModel:
    return PolicyModel(tiny.build_model(0, width=32, layers=2, heads=2), tiny.build_tokenizer(), "small")


@pytest.fixture(scope="module")
def played(env, model) -> list[Trajectory]:
    """Rollouts of a small model that has learned to call the interpreter, and nothing else."""
    lesson = demonstrate(env, ReplayAgent(REPLIES), model.format, 0)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for _ in range(80):
        optimizer.zero_grad()
        (-model.score([lesson]).log_probs.mean()).backward()
        optimizer.step()
    envs = [copy.deepcopy(env) for _ in range(4)]
    policy = LLMPolicy(model, max_new_tokens=24, stop=env.get_wrapper_attr("stop_strings"))
    episodes = collect_rollout(policy, envs, range(4))
    for each in envs:
        each.close()
    called = [each for each in episodes if each.turns > 1 and each.infos[0]["interpreter"]["status"] == "ok"]
    assert called, "the model did not learn to call"
    return called


def text_of(trajectory: Trajectory, model: PolicyModel, mask: int) -> str:
    ids = [token for token, own in zip(trajectory.ids, trajectory.policy_mask, strict=True) if own == mask]
    return model.tokenizer.decode(ids)


def test_outputs_are_read_and_never_learned(env, model, played) -> None:
    for trajectory in played:
        check_masks([trajectory])
        replies = [model.decode(ids) for ids in trajectory.replies()]
        assert "<interpreter>\n51\n</interpreter>" in text_of(trajectory, model, 0)
        assert "<interpreter>" not in text_of(trajectory, model, 1)
        alike = demonstrate(env, ReplayAgent(replies), model.format, 0)
        if alike.ids == trajectory.ids[: len(alike.ids)]:  # sampled as the tokenizer would have written it
            differ = [at for at, mask in enumerate(alike.policy_mask) if mask != trajectory.policy_mask[at]]
            assert {alike.ids[at] for at in differ} == {model.format.end}  # after a stop text the end is given
    assert any([model.decode(ids) for ids in each.replies()] == REPLIES for each in played)


@pytest.mark.parametrize("segment", ["observation", "prompt"])
def test_a_mask_over_what_was_given_is_caught(played, segment) -> None:
    wrong = copy.deepcopy(played[0])
    at = len(wrong.segment) - 1 - wrong.segment[::-1].index(segment)
    wrong.policy_mask[at] = 1
    with pytest.raises(AssertionError, match=f"token {at} is part of the {segment} .turn -1., and policy_mask says 1"):
        check_masks([*played, wrong])


def test_other_wrong_masks_are_caught(played) -> None:
    missing, shifted, short = (copy.deepcopy(played[0]) for _ in range(3))
    missing.policy_mask[missing.policy_positions()[-1]] = 0
    with pytest.raises(AssertionError, match="is part of the action"):
        check_masks([missing])
    shifted.policy_mask = [0, *shifted.policy_mask[:-1]]  # read at the position before, as logits are
    with pytest.raises(AssertionError, match="policy_mask says"):
        check_masks([shifted])
    short.values.pop()
    with pytest.raises(AssertionError, match="but lists of"):
        check_masks([short])
    short = copy.deepcopy(played[0])
    short.rewards.append(0.0)
    with pytest.raises(AssertionError, match="turns, but tokens of turns"):
        check_masks([short])


def test_training_stops_on_a_wrong_mask(tmp_path: Path, monkeypatch) -> None:
    """An engine that takes what it reads for what it wrote does not train in silence."""
    given = Trajectory.append_given

    def wrong(self: Trajectory, ids: list[int], segment: str) -> None:
        given(self, ids, segment)
        if segment == "observation":
            self.policy_mask[-1] = 1

    monkeypatch.setattr(Trajectory, "append_given", wrong)
    command = """--demonstrations none --iterations 1 --episodes 2 --validation-episodes 1 --evaluation-episodes 1
        --workers 1 --max-new-tokens 2""".split()  # noqa: SIM905
    with pytest.raises(AssertionError, match="part of the observation"):
        ppo_llm.main([*command, "--output-dir", str(tmp_path / "run")])
