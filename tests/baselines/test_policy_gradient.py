"""The recipes over one loop: what each makes of a rollout, and that a policy which cannot decide learns to."""

import json
import math
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from turngym.agents import Trajectory, tiny
from turngym.agents.models import PolicyModel
from turngym.agents.scripted import RandomAgent
from turngym.baselines import grpo, grpo_roc, ppo_llm, starpo_s
from turngym.baselines.demonstrations import demonstrate, oracle_demonstrations
from turngym.baselines.diagnostics import collapse_signals
from turngym.baselines.environments import make_envs
from turngym.baselines.estimators import CRITIC_FREE, configured
from turngym.baselines.optimizers import Optimizer
from turngym.baselines.parallel import Workers
from turngym.baselines.policy_gradient import Learner, rollout_metrics
from turngym.baselines.run import Run
from turngym.baselines.samples import group_samples
from turngym.wrappers import ReasoningWrapper

RECIPES = {"ppo": ppo_llm, "grpo": grpo, "starpo_s": starpo_s, "grpo_roc": grpo_roc}
SHORT = """--demonstration-episodes 16 --sft-epochs 1 --iterations 2 --episodes 16 --validate-every 1 --workers 1
    --validation-episodes 8 --evaluation-episodes 8""".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def undecided() -> PolicyModel:
    """A small model that pulls either arm of a bandit, as likely as not, and writes nothing else."""
    model = PolicyModel(tiny.build_model(0, width=32, layers=2, heads=2), tiny.build_tokenizer(), "small")
    env = gymnasium.make("turngym:Bandit-v0")
    agent, optimizer = RandomAgent(env), Optimizer(model, "adamw")
    episodes = [demonstrate(env, agent, model.format, seed) for seed in range(64)]
    for _ in range(40):
        optimizer.zero_grad()
        (-model.score(episodes).log_probs.mean()).backward()
        optimizer.step(3e-3)
    return model


def bandit_run(recipe, model: PolicyModel, **settings) -> Run:
    """A run from the undecided policy on a bandit whose risky arm always pays."""
    fresh = PolicyModel(tiny.build_model(0, width=32, layers=2, heads=2), tiny.build_tokenizer(), "small")
    fresh.load_state_dict(model.state_dict())
    common = {"env_id": "Bandit-v0", "demonstrations": "none", "workers": 1, "optimizer": "adamw", "episodes": 64}
    args = recipe.Args(**{**common, "iterations": 12, "learning_rate": 1e-2, "max_new_tokens": 2, **settings})
    args.check()
    envs = make_envs("Bandit-v0", "train", 64, {"high_probability": 1.0})
    return Run(args, fresh, {"train": envs}, Workers(1), folder=None)


def pulls(run: Run) -> float:
    """How often a sampled reply pulls the risky arm."""
    episodes = run.rollout("train", list(range(128)), temperature=1.0, seed=[9])
    return float(np.mean([each.success for each in episodes]))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ppo", {}),
        ("starpo_s", {"filter_share": 0.5}),
        ("grpo_roc", {}),
        *(("grpo", {"estimator": each}) for each in CRITIC_FREE),
    ],
    ids=lambda each: each if isinstance(each, str) else each.get("estimator", ""),
)
def test_every_recipe_learns_which_arm_pays(undecided, name, settings) -> None:
    recipe = RECIPES[name]
    run = bandit_run(recipe, undecided, **settings)
    before = pulls(run)
    learner = Learner(run, name)
    for iteration in range(12):
        metrics = recipe.iterate(learner, iteration)
        assert all(map(math.isfinite, metrics.values()))
    assert 0.3 < before < 0.7
    assert pulls(run) > 0.9


def test_the_named_estimators_are_all_there_are() -> None:
    named = grpo.Args.__dataclass_fields__["estimator"].type
    assert set(named.__args__) == set(CRITIC_FREE)


def test_group_advantages_reach_every_token_of_their_turn(episode) -> None:
    """Returns 1 and 0 in one group: half of their sum apart, over a deviation of sqrt(1/2)."""
    won, lost = episode("ab", [1.0], tokens=[2]), episode("acd", [0.0, 0.0], tokens=[1, 3])
    samples = group_samples([won, lost], configured("grpo", {}))
    torch.testing.assert_close(samples[0].advantages, torch.full((2,), 0.5**0.5))
    torch.testing.assert_close(samples[1].advantages, torch.full((4,), -(0.5**0.5)))
    assert samples[0].returns is None


def test_a_spoiled_episode_is_no_member_of_its_group(episode) -> None:
    """With it, its group would not be flat."""
    kept, also, spoiled = episode("ab", [1.0]), episode("ab", [1.0]), episode("ab", [0.0])
    spoiled.valid = False
    samples = group_samples([kept, spoiled, also], configured("rloo", {}))
    assert [sample.advantages.tolist() for sample in samples] == [[0.0], [0.0]]


def test_settings_of_an_estimator(episode) -> None:
    """Discounted once: the first of two turns gets half of what the second earned."""
    pair = [episode("aab", [0.0, 1.0]), episode("cde", [0.0, 0.0], group=1)]
    (first, _) = configured("hgpo", {"turn_gamma": 0.5, "scale": False, "depth": 0})(pair)
    np.testing.assert_allclose(first, [-0.25, 0.25])
    with pytest.raises(ValueError, match="rloo has no setting turn_gamma: allowed are none"):
        configured("rloo", {"turn_gamma": 0.5})
    with pytest.raises(ValueError, match="estimator must be one of rloo, grpo"):
        configured("gae", {})


def test_what_is_logged_of_groups(episode) -> None:
    alone = [episode("ab", [1.0], group=0), episode("ab", [0.0], group=1)]
    assert "group_reward_std" not in rollout_metrics(alone)
    assert rollout_metrics([*alone, episode("ab", [0.0], group=0)])["group_reward_std"] == 0.25


def test_star_po_keeps_the_groups_that_differ(undecided) -> None:
    """Where the members of all groups agree there is no update, and the weights stay."""
    run = bandit_run(starpo_s, undecided, filter="top_p", filter_share=0.9)
    learner = Learner(run, "starpo_s")
    metrics = starpo_s.iterate(learner, 0)
    assert 0 < metrics["kept_episodes"] < 1
    assert metrics["kept_episodes"] <= 1 - metrics["flat_groups"]
    for env in run.envs["train"]:
        env.unwrapped.low_reward = env.unwrapped.invalid_penalty = 1.0  # now whatever is written pays alike
    before = {name: weight.clone() for name, weight in run.model.state_dict().items()}
    metrics = starpo_s.iterate(learner, 1)
    assert metrics["flat_groups"] == 1.0
    assert metrics["kept_episodes"] == 0.0
    assert "gradient_norm" not in metrics
    assert all(torch.equal(weight, before[name]) for name, weight in run.model.state_dict().items())


def test_half_of_each_group_is_learned_from(undecided) -> None:
    run = bandit_run(grpo_roc, undecided)
    learner = Learner(run, "grpo_roc")
    trajectories = learner.rollout(0)
    trajectories[0].valid = False
    kept = grpo_roc.resampled(learner, trajectories, 0)
    sizes = np.bincount([each.group for each in kept], minlength=4)
    assert sizes.tolist()[1:] == [8, 8, 8]
    assert sizes[0] in (7, 8)  # 15 are left of the first group
    assert trajectories[0] not in kept
    assert [each.seed for each in grpo_roc.resampled(learner, trajectories, 0)] == [each.seed for each in kept]


def test_stages_divide_a_run() -> None:
    assert [grpo_roc.stage_length((4, 8, 12), each, 6) for each in range(6)] == [4, 4, 8, 8, 12, 12]
    assert grpo_roc.stage_length((), 3, 6) is None


BAD_INPUT = {
    "one in a group": (grpo, ["--group-size", "1"], "--group-size must be at least 2, got 1"),
    "an odd group": (grpo_roc, ["--group-size", "5"], "--group-size must be even and at least 4, got 5"),
    "no such setting": (grpo, ["--estimator-args", "depth=2"], "grpo has no setting depth: allowed are scale"),
    "no setting": (grpo, ["--estimator-args", "depth"], "--estimator-args: depth: write name=value"),
    "nothing kept": (starpo_s, ["--filter-share", "0"], "--filter-share must be above 0 and at most 1, got 0.0"),
    "no length": (grpo_roc, ["--stage-tokens", "8", "0"], "--stage-tokens must be at least 1 each, got (8, 0)"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_gives_one_clear_line_and_code_2(case, tmp_path, capsys) -> None:
    recipe, arguments, expected = BAD_INPUT[case]
    assert recipe.main([*arguments, "--env-id", "Bandit-v0", "--output-dir", str(tmp_path / "run")]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"{Path(recipe.__file__).stem}: ")
    assert expected in message
    assert len(message.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_another_recipe_does_not_go_on_with_a_run(tmp_path, capsys) -> None:
    settings = {**grpo.Args.__dataclass_fields__}
    (tmp_path / "config.json").write_text(
        json.dumps({name: field.default for name, field in settings.items()}, default=str)
    )
    assert ppo_llm.main(["--resume", str(tmp_path)]) == 2
    assert "another recipe began this run, one with estimator_args" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["grpo", "starpo_s", "grpo_roc"])
def test_a_whole_run_and_what_it_leaves(name, tmp_path) -> None:
    """Interrupted in the middle, it ends with the weights and the metrics of one that was left alone."""
    recipe, ends = RECIPES[name], {}
    arguments = [*SHORT, "--env-id", "Bandit-v0", "--group-size", "4", "--checkpoint-every", "1"]
    for folder in (tmp_path / "alone", tmp_path / "interrupted"):
        if folder.name == "alone":
            assert recipe.main([*arguments, "--output-dir", str(folder)]) == 0
        else:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(recipe, "iterate", interrupted_in(recipe.iterate, 1))
                with pytest.raises(KeyboardInterrupt):
                    recipe.main([*arguments, "--output-dir", str(folder)])
            assert recipe.main(["--resume", str(folder)]) == 0
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        weights = [path.read_bytes() for path in sorted(folder.glob("checkpoints/*"))]
        ends[folder.name] = weights, [{key: line[key] for key in line if key != "wall_s"} for line in lines]
    assert ends["alone"] == ends["interrupted"]
    summary = json.loads((folder / "summary.json").read_text())
    assert list(summary)[-4:] == ["random", "sft", name, "oracle"]
    assert (folder / "collapse.png").read_bytes().startswith(b"\x89PNG")
    assert lines[-1]["stage"] == name


def test_thoughts_give_further_signs(undecided) -> None:
    form = undecided.format
    plain = gymnasium.make("turngym:TextFrozenLake-v0")
    acting, thinking = (oracle_demonstrations(each, form, range(3)) for each in (plain, ReasoningWrapper(plain)))
    assert collapse_signals(undecided, acting) == {}
    signs = collapse_signals(undecided, thinking)
    assert set(signs) == {"thought_entropy", "mutual_information", "retrieval"}
    assert abs(signs["mutual_information"]) <= math.log(3)


def interrupted_in(iterate, iteration: int):
    def interrupt(learner: Learner, at: int) -> dict[str, float]:
        if at == iteration:
            raise KeyboardInterrupt
        return iterate(learner, at)

    return interrupt


def test_help_teaches_every_setting(capsys) -> None:
    for recipe in RECIPES.values():
        with pytest.raises(SystemExit):
            recipe.main(["--help"])
        text = " ".join(capsys.readouterr().out.replace("│", " ").split())
        for setting in recipe.Args.__dataclass_fields__:
            assert f"--{setting.replace('_', '-')}" in text


def said(calls: int, errors: int) -> dict:
    return {"interpreter": {"status": "ok", "calls": calls, "errors": errors}}


@pytest.mark.parametrize(
    ("infos", "replies", "penalty"),
    [
        (
            [{"interpreter": {"calls": 1, "errors": 1}}, {"interpreter": {"calls": 2, "errors": 1}}],
            ["", "<answer>"],
            0.5,
        ),
        ([{"interpreter": {"calls": 0, "errors": 0}}], ["<answer>1</answer> <answer>2</answer>"], 0.5 + 1.0),
        ([{"interpreter": {"calls": 0, "errors": 0}}], ["dunno"], 0.5 + 1.0),
        ([{"avoid": True}, {"avoid": False}, {"action_is_valid": False}], ["a", "b", "c"], 0.5 + 1 / 3),
        ([{}], ["Up"], 0.5),
    ],
)
def test_what_went_wrong_in_an_episode(infos, replies, penalty) -> None:
    from turngym.baselines.resampling import episode_penalty

    each = Trajectory()
    for info in infos:
        each.record_turn(0.0, info)
    assert episode_penalty(each, replies) == pytest.approx(penalty)
