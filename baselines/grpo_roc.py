"""GRPO-RoC: GRPO that resamples on correct, for environments whose calls of a tool can fail.

    python baselines/grpo_roc.py                                   # tiny on CodeInterpreter-v0
    python baselines/grpo_roc.py --env-id RStar2-v0                # waypoints that the search did not reach are errors
    python baselines/grpo_roc.py --quick                           # a complete run in minutes, to try a setup
    python baselines/grpo_roc.py --stage-tokens 96 160 --iterations 200
    python baselines/grpo_roc.py --resume runs/<folder>            # goes on where an interrupted run stopped

rStar2-Agent's recipe (arXiv:2508.20722) over the loop and the objective of `grpo.py`. The reward is for the outcome
alone, so an episode that failed three calls on its way to the right answer earns as much as a clean one. Of each group
half is learned from: failures at random, successes with probability in inverse proportion to what went wrong in them
(`resampling.py`). What went wrong is read off typed statuses of the environment, not off the words of an output. No
divergence from a reference, no entropy bonus, clip-higher, loss averaged over all sampled tokens of the kept episodes.

`--stage-tokens` is the paper's staged length (8K, 12K, 12K): the run is divided into as many equal stages, each with
its longest reply. Its last stage drops problems that are always solved; here `--retry-share` brings failed ones back.

Metrics of an iteration are those of `grpo.py`, and

| name | what | good |
|---|---|---|
| tool_errors | share of the calls that failed, in all episodes | falls |
| correct_tool_errors | the same in solved episodes: what resampling is there for | falls |
| kept_tool_errors | the same in solved episodes that the update saw | below correct_tool_errors |
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

try:
    from turngym.agents.trajectory import Trajectory
    from turngym.baselines.grpo import GroupArgs, check_groups, objective
    from turngym.baselines.policy_gradient import Learner, PolicyGradientArgs, rollout_metrics
    from turngym.baselines.resampling import episode_penalty, error_share, resample_on_correct
    from turngym.baselines.run import CommonArgs, Run, command_line, report
    from turngym.baselines.samples import group_samples
except ModuleNotFoundError as error:
    print(f'{error.name} is not installed: run  pip install "turngym[llm]"', file=sys.stderr)
    raise SystemExit(2) from error


@dataclass(frozen=True)
class Args(GroupArgs, PolicyGradientArgs, CommonArgs):
    """Train a policy that calls a tool, mostly on those of its solved episodes in which the calls went well."""

    env_id: str = "CodeInterpreter-v0"
    """A registered id, or module:Id to import yours first."""
    group_size: int = 16
    """Episodes on each level, of which half are learned from; at least 4, even. They differ in luck and sampling."""
    stage_tokens: tuple[int, ...] = ()
    """Longest reply in each of so many equal stages of the run, as in 96 160; by default one stage."""
    entropy_coefficient: float = 0.0
    """Weight of the entropy bonus."""

    def check(self) -> None:
        """Raise `ValueError` for what is out of range."""
        super().check()
        check_groups(self)
        if self.group_size < 4 or self.group_size % 2:
            raise ValueError(f"--group-size must be even and at least 4, got {self.group_size}: half of it is kept")
        if min(self.stage_tokens, default=1) < 1:
            raise ValueError(f"--stage-tokens must be at least 1 each, got {self.stage_tokens}")


_SELECTION = 13  # the purpose of a random stream; those below belong to policy_gradient.py


def stage_length(stages: Sequence[int], iteration: int, iterations: int) -> int | None:
    """The longest reply of an iteration; None where no stages are set."""
    return stages[iteration * len(stages) // iterations] if stages else None


def resampled(learner: Learner, trajectories: Sequence[Trajectory], iteration: int) -> list[Trajectory]:
    """The half of each group that is learned from; what a failure of ours spoiled is in no half."""
    valid = [each for each in trajectories if each.valid]
    model = learner.run.model
    penalties = [episode_penalty(each, [model.decode(ids) for ids in each.replies()]) for each in valid]
    kept = resample_on_correct(valid, penalties, learner.run.rng(_SELECTION, iteration))
    return [valid[index] for index in kept]


def iterate(learner: Learner, iteration: int) -> dict[str, float]:
    """One rollout, what is kept of it, and its update."""
    args = learner.args
    length = stage_length(args.stage_tokens, iteration, args.iterations)
    trajectories = learner.rollout(iteration, max_new_tokens=length)
    kept = resampled(learner, trajectories, iteration)
    shares = {
        "tool_errors": error_share(trajectories),
        "correct_tool_errors": error_share([each for each in trajectories if each.success]),
        "kept_tool_errors": error_share([each for each in kept if each.success]),
    }
    return {
        **rollout_metrics(trajectories),
        **learner.signals(trajectories, iteration),
        **{name: share for name, share in shares.items() if share is not None},
        **learner.update(group_samples(kept, args.advantages()), iteration, objective),
    }


def train(run: Run) -> dict[str, Any]:
    """The whole recipe; returns the summary that the folder keeps too."""
    Learner(run, "grpo_roc").learn(iterate)
    return report(run)


def main(argv: list[str] | None = None) -> int:
    """The command line: 0 after a complete run, 2 where a setting is wrong."""
    return command_line(Args, train, argv, __doc__, iterations=8, episodes=128)


if __name__ == "__main__":
    sys.exit(main())
