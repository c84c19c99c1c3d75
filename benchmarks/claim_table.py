"""The claims that `claims.py` judges: fixed, with the least that counts as an effect, before any run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Run = dict[str, Any]
Policy = tuple[str, str]
"""A variant of a study, and one of its policies (or of its moments, for measures of training)."""


@dataclass(frozen=True)
class Comparison:
    """Two policies of a study, of which one is claimed to be ahead.

    Attributes:
        label: What is compared.
        study: Of studies.py.
        ahead: The policy that is claimed to be ahead.
        behind: The other one.
        measure: What both are measured by, of `MEASURES`.
        least: The smallest difference that counts as an effect.
        lower_is_better: Whether being ahead is having less.
    """

    label: str
    study: str
    ahead: Policy
    behind: Policy
    measure: str = "success"
    least: float = 0.02
    lower_is_better: bool = False


@dataclass(frozen=True)
class Claim:
    """What was claimed.

    Attributes:
        statement: In a sentence.
        source: Who claims it.
        comparisons: What was compared here.
        note: What a reader must know of the difference to the source.
    """

    statement: str
    source: str
    comparisons: tuple[Comparison, ...]
    note: str = ""


def _validation(run: Run, moment: str) -> float | None:
    """The best or the last tenth of training by success on validation levels."""
    points = [point for point in run["curve"].get("validation_success", ()) if point is not None]
    return None if not points else max(points) if moment == "best" else points[-1]


def _fall(run: Run, metric: str) -> float | None:
    """The tenth of training, from 0, in which a metric falls below half of its best before; 10 where it never does."""
    points, best = run["curve"].get(metric), 0.0
    if not points:
        return None
    for tenth, point in enumerate(points):
        if point is not None and point < best / 2:
            return tenth
        best = max(best, point or 0.0)
    return 10


def _late(metric: str) -> Callable[[Run, str], float | None]:
    """A metric in the last tenth of training."""
    return lambda run, policy: (run["curve"].get(metric) or [None])[-1]


MEASURES: dict[str, Callable[[Run, str], float | None]] = {
    "success": lambda run, policy: run[policy]["success"],
    "pass@1": lambda run, policy: run["sampled"][policy]["pass@1"]["mean"],
    "pass@8": lambda run, policy: run["sampled"][policy]["pass@8"]["mean"],
    "validation success": _validation,
    "tenth of training in which it halves": _fall,
    "tool errors in correct episodes": _late("correct_tool_errors"),
}
"""By name: of a run's record and a policy; None where the run does not tell."""


def measured(measure: str, run: Run, policy: str) -> float | None:
    """A measure of a policy of a run."""
    return MEASURES[measure](run, policy)


CLAIMS = (
    Claim(
        "Imitation has a ceiling, and RL goes on from there",
        "The premise of all four schemes",
        (
            *(
                Comparison(f"{count}: SFT and PPO, SFT", "demonstrations", (count, "ppo"), (count, "sft"))
                for count in ("100", "1000", "10000")
            ),
            Comparison(
                "SFT and PPO, SFT for as long",
                "text_frozen_lake",
                ("sft, then ppo", "ppo"),
                ("sft, whole time", "sft"),
            ),
        ),
        "The first column counts demonstrations. The runs were made before `least` was set.",
    ),
    Claim(
        "Thinking before acting helps in RL of many turns",
        "RAGEN (arXiv:2504.20073)",
        tuple(
            Comparison(f"{name}: think, action", study, ("think", "ppo"), ("action", "ppo"))
            for name, study in (("lake", "thoughts"), ("slippery lake", "thoughts_slippery"))
        ),
        "Thoughts are an oracle's at first: a plan and what will be seen next. The runs on the plain lake were made "
        "before `least` was set.",
    ),
    Claim(
        "Plain StarPO collapses, StarPO-S later; deviation within groups and entropy move first",
        "RAGEN (arXiv:2504.20073)",
        (
            Comparison(
                "StarPO: its best, its last",
                "starpo",
                ("starpo", "best"),
                ("starpo", "last"),
                "validation success",
                0.1,
            ),
            Comparison(
                "StarPO-S, StarPO, at the end", "starpo", ("starpo-s", "last"), ("starpo", "last"), "validation success"
            ),
            *(
                Comparison(
                    f"StarPO: success, {metric.replace('_', ' ')}",
                    "starpo",
                    ("starpo", "success"),
                    ("starpo", metric),
                    "tenth of training in which it halves",
                    1.0,
                )
                for metric in ("group_reward_std", "entropy")
            ),
        ),
    ),
    Claim(
        "A few actions a turn, many levels and fresh rollouts help",
        "RAGEN (arXiv:2504.20073)",
        tuple(
            Comparison(f"base, {other}", "knobs", ("base", "grpo"), (other, "grpo"))
            for other in ("one move a turn", "few levels", "stale rollouts")
        ),
        "Base: up to three moves a turn, 32 levels with 8 episodes each, one pass over each rollout. Few levels: 4 "
        "with 64 each. Stale: five passes over a fifth of the rollouts.",
    ),
    Claim(
        "Early experience beats imitation of the same few demonstrations, and RL ends higher from it",
        "Early Experience (arXiv:2510.08558)",
        (
            Comparison("world model, imitation", "early_experience", ("world model", "sft"), ("imitation", "sft")),
            Comparison("both with PPO after", "early_experience", ("world model", "ppo"), ("imitation", "ppo")),
            Comparison("reflection, imitation of thoughts", "reflection", ("reflection", "sft"), ("imitation", "sft")),
        ),
    ),
    Claim(
        "Step groups help on long horizons, and values on the group's graph help more",
        "GiGPO (arXiv:2505.10978), GRAFT (arXiv:2609.28963)",
        (
            Comparison("GiGPO, GRPO", "step_groups", ("gigpo", "grpo"), ("grpo", "grpo")),
            Comparison("GRAFT, GiGPO", "step_groups", ("graft", "grpo"), ("gigpo", "grpo")),
        ),
    ),
)
