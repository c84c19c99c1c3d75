"""Sequences that grow side by side, against plain forward passes; and how a token is drawn."""

import pytest
import torch

from turngym.agents import tiny
from turngym.agents.generation import CachedSequences
from turngym.agents.models import PolicyModel
from turngym.agents.sampling import Sampling, sample


@pytest.fixture(scope="module")
def model() -> PolicyModel:
    return PolicyModel(tiny.build_model(0, width=32, layers=2, heads=2), tiny.build_tokenizer(), "small")


def test_what_is_read_in_parts_is_what_is_read_at_once(model) -> None:
    """Sequences of all lengths come, grow, share their beginnings and go, in any order."""
    generator = torch.Generator().manual_seed(0)

    def draw(limit: int) -> int:
        return int(torch.randint(limit, (), generator=generator))

    sequences, texts, most = CachedSequences(model), dict[int, list[int]](), 0
    stem = [draw(1024) for _ in range(50)]
    for turn in range(30):
        texts[turn] = stem[: draw(50) + 1]
        sequences.append(turn, texts[turn])
        names = [name for name in texts if name == turn or draw(3)]
        for name in names:
            new = [draw(1024) for _ in range(1 + draw(40))]
            texts[name] = texts[name] + new
            sequences.append(name, new)
        hidden = sequences.read(names)
        for name, found in zip(names, hidden, strict=True):
            ids = torch.tensor([texts[name]])
            with torch.inference_mode():
                whole = model.hidden(ids, torch.ones_like(ids), torch.arange(ids.shape[1])[None])[0, -1]
            assert torch.allclose(found, whole, atol=1e-4)
        most = max(most, len(texts))
        while len(texts) > 6:
            gone = list(texts)[draw(len(texts))]
            if gone in names:
                del texts[gone]
                sequences.release(gone)
    assert most > 5
    assert sequences.tally.shared > 0


LOGITS = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(), [0.5, 0.3, 0.15, 0.05]),
        (Sampling(top_k=2), [0.625, 0.375, 0, 0]),
        (Sampling(top_p=0.8), [0.625, 0.375, 0, 0]),
        (Sampling(min_p=0.25), [10 / 19, 6 / 19, 3 / 19, 0]),
        (Sampling(temperature=0.5), [100 / 146, 36 / 146, 9 / 146, 1 / 146]),
    ],
    ids=str,
)
def test_the_distribution_that_is_drawn_from(sampling: Sampling, expected: list[float]) -> None:
    assert torch.allclose(sampling.log_probs(LOGITS).exp(), torch.tensor([expected]), atol=1e-6)
    points = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000
    tokens, log_probs = sample(LOGITS.expand(1000, -1), points, sampling)
    assert torch.allclose(torch.bincount(tokens, minlength=4) / 1000, torch.tensor(expected), atol=2e-3)
    assert torch.allclose(log_probs, sampling.log_probs(LOGITS)[0][tokens])


def test_temperature_0_takes_the_likeliest() -> None:
    assert sample(LOGITS, torch.tensor([0.99], dtype=torch.float64), Sampling(temperature=0))[0].tolist() == [0]
