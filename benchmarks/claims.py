"""What papers claim of agents that learn, put to the test: `docs/results/claims.md` with a verdict on each comparison.

    python benchmarks/claims.py                        # runs what is missing (many hours), and writes the page
    python benchmarks/claims.py --only thoughts        # the comparisons of one study alone
    python benchmarks/claims.py --write                # the page of what is there, without a run
    python benchmarks/claims.py --quick                # every study once, small: `runs/quick/`, no result

A comparison (claim_table.py) takes two policies of a study (studies.py) and asks by how much the first is ahead. Runs
are paired by training seed: both had the same levels. The interval is a bootstrap over these pairs, and the verdict is

| verdict | where the whole 95% interval lies |
|---|---|
| confirmed | at or above what was called an effect before any run |
| not confirmed | below it |
| inconclusive | on both sides, or there are fewer than three pairs |

Runs are kept one by one (`learning.py`): an interrupted command goes on where it stopped.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import learning
import numpy as np
from claim_table import CLAIMS, Claim, Comparison, measured
from studies import STUDIES
from study_runs import QUICK, RESULTS, Runs, run_study

_RESAMPLES = 10_000
_COLOURS = {"confirmed": "tab:green", "not confirmed": "tab:red", "inconclusive": "tab:gray"}


class Effect(NamedTuple):
    """By how much one policy is ahead of another.

    Attributes:
        pairs: `(ahead, behind)` by training seed.
        mean: Mean difference; positive speaks for the claim.
        interval: 95% bootstrap interval of the mean.
        verdict: See above; "not run" without a pair.
    """

    pairs: dict[int, tuple[float, float]]
    mean: float
    interval: tuple[float, float]
    verdict: str


def effect(pairs: dict[int, tuple[float, float]], least: float, *, lower_is_better: bool = False) -> Effect:
    """The effect that pairs of runs show, and the verdict on it.

    Args:
        pairs: `(ahead, behind)` by training seed.
        least: The smallest difference that counts as an effect, in the measure's own units; at least 0.
        lower_is_better: Whether the claim is that the measure falls.
    """
    if not pairs:
        return Effect(pairs, float("nan"), (float("nan"), float("nan")), "not run")
    sign = -1.0 if lower_is_better else 1.0
    differences = np.array([sign * (ahead - behind) for ahead, behind in pairs.values()])
    draws = np.random.default_rng(0).choice(differences, (_RESAMPLES, len(differences))).mean(axis=1)
    low, high = np.quantile(draws, (0.025, 0.975))
    verdict = "inconclusive"
    if len(pairs) >= 3 and (low >= least or high < least):
        verdict = "confirmed" if low >= least else "not confirmed"
    return Effect(pairs, float(differences.mean()), (float(low), float(high)), verdict)


def found(comparison: Comparison, runs: Runs) -> Effect:
    """The effect in a study's runs, by variant and seed."""
    (ahead, first), (behind, second) = comparison.ahead, comparison.behind
    both = runs.get(ahead, {}).keys() & runs.get(behind, {}).keys()
    pairs = {
        int(seed): (
            measured(comparison.measure, runs[ahead][seed], first),
            measured(comparison.measure, runs[behind][seed], second),
        )
        for seed in sorted(both, key=int)
    }
    known = {seed: pair for seed, pair in pairs.items() if None not in pair}
    return effect(known, comparison.least, lower_is_better=comparison.lower_is_better)  # type: ignore[arg-type]


def page(claims: Sequence[Claim], runs: dict[str, Runs], quick: bool) -> str:
    """The verdicts as Markdown, with every run.

    Args:
        claims: What was claimed.
        runs: Of each study, by variant and seed.
        quick: Whether they were cut short.
    """
    lines = [
        "# What was claimed, and what comes of it here",
        "",
        f"`python benchmarks/claims.py{' --quick' if quick else ''}`",
        "",
        "The policy is the `tiny` model, which learned from an oracle's demonstrations and then from its own episodes: "
        "it is not a language model, and what does not show at its scale may show at another. Settings, seeds and "
        "the smallest difference that counts (`least`) were committed before the runs, but where it is said "
        "otherwise. Differences are paired by training seed; brackets hold a 95% bootstrap interval over the pairs.",
        "",
    ]
    if quick:
        lines += ["**Cut short by --quick: whether it runs, and not a result.**", ""]
    for claim in claims:
        lines += [f"## {claim.statement}", "", f"{claim.source}. {claim.note}".strip(), ""]
        lines += ["| comparison | measure | by seed | difference | least | verdict |", "|---|---|---|---|---|---|"]
        lines += [row(each, found(each, runs.get(each.study, {}))) for each in claim.comparisons]
        lines += ["", *settings(claim), ""]
    lines += ["![differences and their intervals](claims.png)", "", f"Machine: {learning.machine()}.", ""]
    return "\n".join(lines)


def row(comparison: Comparison, result: Effect) -> str:
    """One comparison."""
    cells = [comparison.label, comparison.measure + (", lower is better" if comparison.lower_is_better else "")]
    cells += [", ".join(f"{seed}: {a:.3f} against {b:.3f}" for seed, (a, b) in result.pairs.items())]
    low, high = result.interval
    cells += [f"{result.mean:+.3f} [{low:+.3f}, {high:+.3f}]" if result.pairs else ""]
    return f"| {' | '.join([*cells, f'{comparison.least:g}', result.verdict])} |"


def settings(claim: Claim) -> list[str]:
    """What the compared variants were run with."""
    names = dict.fromkeys(
        (each.study, variant) for each in claim.comparisons for variant, _ in (each.ahead, each.behind)
    )
    return [
        f"- {study}, {variant}: `python {' && python '.join(STUDIES[study].commands(variant))}`"
        for study, variant in names
    ]


def draw(path: Path, claims: Sequence[Claim], runs: dict[str, Runs]) -> None:
    """Every difference with its interval and its runs, in units of what counts as an effect."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    results = [(each, found(each, runs.get(each.study, {}))) for claim in claims for each in claim.comparisons]
    results = [(each, result) for each, result in results if result.pairs]
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.35 * len(results)), layout="constrained")
    for height, (each, result) in enumerate(reversed(results)):
        colour, (low, high) = _COLOURS[result.verdict], result.interval
        axes.plot([low / each.least, high / each.least], [height, height], color=colour)
        sign = -1 if each.lower_is_better else 1
        single = [sign * (ahead - behind) / each.least for ahead, behind in result.pairs.values()]
        axes.plot(single, [height] * len(single), ".", color=colour)
    axes.set_yticks(range(len(results)), [f"{each.study}: {each.label}" for each, _ in reversed(results)], fontsize=7)
    axes.axvline(1, color="black", linewidth=0.8, linestyle="--")
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set(xlabel="difference / the least that counts as an effect", xscale="symlog")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is missing, and write the page after each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(dict.fromkeys(each.study for claim in CLAIMS for each in claim.comparisons))
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="STUDY", help=", ".join(names))
    parser.add_argument("--seeds", type=int, nargs="+", help="only these of the studies' seeds")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side, each with a share of the cores")
    parser.add_argument("--quick", action="store_true", help="one seed of everything, cut short")
    parser.add_argument("--write", action="store_true", help="only write the page of what is there")
    arguments = parser.parse_args(argv)
    place = QUICK if arguments.quick else RESULTS

    def write() -> None:
        paths = {name: place / f"{name}.json" for name in names}
        runs = {name: json.loads(path.read_text())["runs"] for name, path in paths.items() if path.exists()}
        place.mkdir(parents=True, exist_ok=True)
        learning.save(place / "claims.md", page(CLAIMS, runs, arguments.quick))
        draw(place / "claims.png", CLAIMS, runs)

    def both(path: Path, name: str, runs: Runs) -> None:
        learning.write(path, name, runs)
        write()

    for name in [] if arguments.write else arguments.only:
        run_study(name, both, seeds=arguments.seeds, jobs=arguments.jobs, quick=arguments.quick)
    write()


if __name__ == "__main__":
    main()
