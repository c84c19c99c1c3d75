"""Training throughput of the `tiny` model: worker threads against PyTorch's own threads, in one run.

    python benchmarks/workers.py

Forward and backward passes over 256 oracle episodes of TextFrozenLake-v0, tokens after the shared prompt a second of
wall time. Each setting runs once to warm up and then three times; the median is shown.
"""

import statistics
import time

import gymnasium
import torch

from turngym.agents.models import load_policy_model
from turngym.baselines.demonstrations import oracle_demonstrations
from turngym.baselines.parallel import Workers, micro_batches

_REPEATS = 3


def main() -> None:
    """Print one row a setting."""
    model = load_policy_model("tiny")
    env = gymnasium.make("turngym:TextFrozenLake-v0")
    episodes = oracle_demonstrations(env, model.format, range(256))
    instructions = env.get_wrapper_attr("instructions")
    tokens = sum(len(each.ids) for each in episodes) - len(episodes) * len(model.format.prompt(instructions))
    print("| workers | PyTorch threads each | tokens in a micro-batch | tokens a second | against one thread |")
    print("|---|---|---|---|---|")
    baseline = None
    for workers, threads in ((1, 1), (1, 2), (2, 1)):
        for size in (2048, 8192):
            pool = Workers(workers)
            torch.set_num_threads(threads)
            times = []
            for _ in range(1 + _REPEATS):
                begun = time.perf_counter()
                groups = micro_batches(episodes, size)
                pool.set_gradients(
                    model, groups, lambda group: -model.score([episodes[i] for i in group]).log_probs.sum()
                )
                times.append(time.perf_counter() - begun)
            speed = tokens / statistics.median(times[1:])
            baseline = baseline or speed
            print(f"| {workers} | {threads} | {size} | {speed:,.0f} | {speed / baseline:.2f} |")


if __name__ == "__main__":
    main()
