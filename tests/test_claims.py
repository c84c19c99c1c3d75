"""The verdicts of benchmarks/ on claims, from figures made by hand."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
APART = {0: (0.90, 0.80), 1: (0.92, 0.80), 2: (0.88, 0.80)}


@pytest.fixture
def claims(monkeypatch):
    """`benchmarks/claims.py`, which lies in no package."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import claims

    return claims


@pytest.mark.parametrize(
    ("pairs", "least", "verdict"),
    [
        (APART, 0.02, "confirmed"),
        (APART, 0.20, "not confirmed"),
        (APART, 0.10, "inconclusive"),
        ({seed: pair[::-1] for seed, pair in APART.items()}, 0.02, "not confirmed"),
        ({seed: APART[seed] for seed in (0, 1)}, 0.02, "inconclusive"),
        ({}, 0.02, "not run"),
    ],
)
def test_verdicts(claims, pairs, least, verdict) -> None:
    assert claims.effect(pairs, least).verdict == verdict


def test_an_effect_is_the_mean_over_pairs(claims) -> None:
    found = claims.effect(APART, 0.02)
    assert found.mean == pytest.approx(0.10)
    assert found.interval == pytest.approx((0.08, 0.12))  # of 27 draws of three, three in a hundred are the extremes
    less = claims.effect(APART, 0.02, lower_is_better=True)
    assert (less.mean, less.verdict) == (pytest.approx(-0.10), "not confirmed")


def test_runs_are_paired_by_seed(claims) -> None:
    comparison = claims.Comparison("a, b", "study", ("a", "ppo"), ("b", "sft"))
    runs = {
        "a": {str(seed): {"ppo": {"success": 0.5 + seed / 10}} for seed in (0, 1, 2)},
        "b": {str(seed): {"sft": {"success": 0.1}} for seed in (2, 1)},
    }
    assert claims.found(comparison, runs).pairs == {1: (0.6, 0.1), 2: (0.7, 0.1)}
    assert claims.found(comparison, {}).verdict == "not run"


def test_measures_of_training(claims) -> None:
    curve = {
        "validation_success": [None, 0.5, 0.8, 0.4],
        "entropy": [1.0, 1.2, 0.7, 0.5, 0.1],
        "success": [0.1, 0.5, 0.6, 0.4, 0.35],
        "correct_tool_errors": [0.3, 0.2],
    }
    run = {"curve": curve}
    measured = claims.measured
    assert measured("validation success", run, "best") == 0.8
    assert measured("validation success", run, "last") == 0.4
    assert measured("tenth of training in which it halves", run, "entropy") == 3
    assert measured("tenth of training in which it halves", run, "success") == 10
    assert measured("tenth of training in which it halves", run, "group_reward_std") is None
    assert measured("tool errors in correct episodes", run, "grpo") == 0.2


def test_every_comparison_is_of_a_study(claims) -> None:
    for claim in claims.CLAIMS:
        for each in claim.comparisons:
            assert each.least > 0
            for variant, _ in (each.ahead, each.behind):
                assert variant in claims.STUDIES[each.study].variants


def test_the_page_shows_every_run_and_verdict(claims, tmp_path) -> None:
    comparison = claims.Comparison("10: SFT and PPO, SFT", "demonstrations", ("100", "ppo"), ("100", "sft"))
    claim = claims.Claim("RL goes on", "somebody", (comparison,))
    runs = {
        "100": {
            str(seed): {"ppo": {"success": first}, "sft": {"success": second}}
            for seed, (first, second) in APART.items()
        }
    }
    text = claims.page([claim], {"demonstrations": runs}, quick=False)
    (line,) = [line for line in text.splitlines() if line.startswith("| 10: ")]
    assert "0: 0.900 against 0.800, 1: 0.920 against 0.800, 2: 0.880 against 0.800" in line
    assert line.endswith("| +0.100 [+0.080, +0.120] | 0.02 | confirmed |")
    assert "--demonstration-episodes 100 " in text
    assert "not a result" in claims.page([claim], {}, quick=True)
    claims.draw(tmp_path / "claims.png", [claim], {"demonstrations": runs})
    assert (tmp_path / "claims.png").stat().st_size > 1000


@pytest.mark.slow
def test_quick_runs_and_writes_the_page(claims, tmp_path, monkeypatch) -> None:
    import study_runs

    monkeypatch.setattr(study_runs, "QUICK", tmp_path)
    monkeypatch.setattr(claims, "QUICK", tmp_path)
    claims.main(["--quick", "--only", "early_experience"])
    text = (tmp_path / "claims.md").read_text()
    assert text.count("inconclusive |") == 2  # with one seed there is no other verdict
    assert "not a result" in text
    assert (tmp_path / "early_experience.md").exists()
