"""Early signs of collapse, beside those that every run logs (success, entropy, `group_reward_std`).

- *Echo trap* (RAGEN, arXiv:2504.20073): members of a group stop differing, entropy falls, and then the gradient leaps;
  success falls last. `spike_ratios` says how far a gradient's norm leaps out of those before it.
- *Template collapse* (its second version, arXiv:2604.06268): thoughts stay varied and fluent but no longer depend on
  the level, which entropy does not see. `thought_information` does: it asks whether a thought is likelier under its own
  prompt than under the others of the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from turngym.agents.models import PolicyModel
from turngym.agents.trajectory import Segment, Trajectory
from turngym.baselines.advantages import Floats


def sampled_entropy(trajectories: Sequence[Trajectory], segment: Segment | None = None) -> float:
    """Entropy of the policy, estimated by how unlikely it found what it sampled, in nats a token.

    Args:
        trajectories: Sampled at temperature 1, so that their log-probabilities are the policy's own.
        segment: Of these tokens alone, for example "thought"; by default of all sampled tokens.

    Returns:
        Minus the mean log-probability; NaN where there is no such token.
    """
    log_probs = [
        each.log_probs[at]
        for each in trajectories
        for at in each.policy_positions()
        if segment in (None, each.segment[at])
    ]
    return -float(np.mean(log_probs)) if log_probs else float("nan")


def spike_ratios(norms: Sequence[float], window: int = 20) -> Floats:
    """Each gradient norm over the median of up to `window` norms before it; 1 for the first.

    A steady run stays near 1, whatever its scale and slow drift. RAGEN reads spikes off a curve and names no threshold.

    Args:
        norms: Before clipping, one an update, above 0.
        window: At least 1.

    Raises:
        ValueError: If `window` is out of range.
    """
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}")
    before = [np.median(norms[max(0, step - window) : step]) if step else norms[0] for step in range(len(norms))]
    return np.array(norms) / np.array(before)


@dataclass(frozen=True)
class ThoughtInformation:
    """What thoughts tell of the prompts that they were written for, all in nats a thought unless it says otherwise.

    Attributes:
        mutual_information: Between prompt and thought, estimated; 0 where thoughts are the same for all prompts, at
            most `log(prompts)`.
        conditional_entropy: Of a thought, given its prompt.
        retrieval: Share of thoughts that are likeliest under their own prompt.
        prompts: How many prompts there were; guessing retrieves one in so many.
    """

    mutual_information: float
    conditional_entropy: float
    retrieval: float
    prompts: int


def thought_information(log_probs: Floats, own: Sequence[int]) -> ThoughtInformation:
    """Mutual information between prompts and thoughts, with the batch's prompts as equally likely.

    The mean of `log p(z | x) - log mean_j p(z | x_j)`, for thoughts z and their own prompts x.

    Args:
        log_probs: Of each thought under each prompt, `(thoughts, prompts)`, summed over its tokens. With means over
            tokens, all results are per token, but the bound `log(prompts)` is then never near.
        own: The prompt that each thought was written for.

    Raises:
        ValueError: If there is no thought.

    Source: RAGEN's second version; its released code reports both forms.
    """
    rows, prompts = np.arange(len(log_probs)), log_probs.shape[1]
    if not len(rows):
        raise ValueError("log_probs must hold at least one thought, got none")
    matched = log_probs[rows, own]
    top = log_probs.max(axis=1)
    mixed = top + np.log(np.exp(log_probs - top[:, None]).mean(axis=1))
    return ThoughtInformation(
        mutual_information=float((matched - mixed).mean()),
        conditional_entropy=-float(matched.mean()),
        retrieval=float((matched >= top).mean()),
        prompts=prompts,
    )


@torch.no_grad()
def cross_log_probs(model: PolicyModel, trajectories: Sequence[Trajectory]) -> tuple[Floats, list[int]]:
    """Log-probability of each episode's first thought under each first prompt: the input of `thought_information`.

    What it costs is thoughts times prompts, each read at full length: 64 episodes are enough.

    Args:
        model: The policy.
        trajectories: Those without a thought in their first turn are left out.

    Returns:
        `(thoughts, prompts)`, summed over the thought's tokens, and each thought's own prompt. Equal prompts are one.
    """
    pairs = [(prompt, thought) for prompt, thought in map(_first_thought, trajectories) if thought]
    prompts = list(dict.fromkeys(prompt for prompt, _ in pairs))
    result = np.zeros((len(pairs), len(prompts)))
    for column, prompt in enumerate(prompts):
        scores = model.score([_thinking(prompt, thought) for _, thought in pairs]).log_probs
        for row, own in enumerate(scores.split([len(thought) for _, thought in pairs])):
            result[row, column] = own.double().sum()
    return result, [prompts.index(prompt) for prompt, _ in pairs]


def collapse_signals(model: PolicyModel, trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """What the thoughts of some episodes tell of collapse, as metrics; nothing where there is no thought.

    Args:
        model: The policy that sampled them.
        trajectories: One of each group: members share their prompt. See `cross_log_probs` for what it costs.

    Returns:
        `thought_entropy` (nats a token), `mutual_information` (nats a thought) and `retrieval`, or `{}`.
    """
    log_probs, own = cross_log_probs(model, trajectories)
    if not own:
        return {}
    information = thought_information(log_probs, own)
    return {
        "thought_entropy": sampled_entropy(trajectories, "thought"),
        "mutual_information": information.mutual_information,
        "retrieval": information.retrieval,
    }


def _first_thought(trajectory: Trajectory) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids of what stands before the first reply, and of the thought that the reply begins with."""
    first = trajectory.policy_mask.index(1)
    end = next(at for at in range(first, len(trajectory.ids) + 1) if trajectory.segment[at : at + 1] != ["thought"])
    return tuple(trajectory.ids[:first]), tuple(trajectory.ids[first:end])


def _thinking(prompt: Sequence[int], thought: Sequence[int]) -> Trajectory:
    """An episode in which a thought was written to a prompt."""
    trajectory, zeros = Trajectory(), [0.0] * len(thought)
    trajectory.append_given(list(prompt), "prompt")
    trajectory.append_sampled(list(thought), "thought", zeros, zeros, 0)
    return trajectory
