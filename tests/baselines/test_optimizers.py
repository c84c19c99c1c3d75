"""Muon against PyTorch's own, which computes in bfloat16."""

import pytest
import torch
from torch import nn

from turngym.agents import tiny
from turngym.baselines.optimizers import Muon, Optimizer, orthogonalized


@pytest.mark.parametrize("shape", [(8, 8), (8, 20), (20, 8)])
def test_updates_are_nearly_orthogonal(shape) -> None:
    matrices = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    singular = torch.linalg.svdvals(orthogonalized(matrices))
    assert 0.6 < singular.min() < singular.max() < 1.3


def test_it_walks_as_pytorchs_does() -> None:
    torch.manual_seed(0)
    start, target = torch.randn(12, 6), torch.randn(12, 6)
    mine, theirs = (start.clone().requires_grad_() for _ in range(2))
    ours, reference = Muon([mine], lr=0.05), torch.optim.Muon([theirs], lr=0.05, weight_decay=0.0, momentum=0.95)
    for _ in range(5):
        for weight, optimizer in ((mine, ours), (theirs, reference)):
            weight.grad = 2 * (weight.detach() - target)
            optimizer.step()
    assert (mine - theirs).norm() < 0.03 * (mine - start).norm()


def test_every_parameter_moves_once() -> None:
    model = tiny.build_model(0, width=16, layers=1, heads=2)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimizer = Optimizer(model, "muon")
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step(1e-2)
    assert all(not torch.equal(before[name], weight) for name, weight in model.named_parameters())


def test_state_goes_on() -> None:
    def walk(model: nn.Module, optimizer: Optimizer, steps: int) -> None:
        for _ in range(steps):
            for weight in model.parameters():
                weight.grad = weight.detach() * 0.1
            optimizer.step(1e-2)

    straight, first, second = (tiny.build_model(0, width=16, layers=1, heads=2) for _ in range(3))
    walk(straight, Optimizer(straight, "muon"), 4)
    optimizer = Optimizer(first, "muon")
    walk(first, optimizer, 2)
    second.load_state_dict(first.state_dict())
    resumed = Optimizer(second, "muon")
    resumed.load_state_dict(optimizer.state_dict())
    walk(second, resumed, 2)
    assert all(torch.equal(a, b) for a, b in zip(straight.parameters(), second.parameters(), strict=True))


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="muon, adamw"):
        Optimizer(nn.Linear(2, 2), "sgd")
