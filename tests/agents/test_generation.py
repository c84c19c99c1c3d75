"""The store of keys and values, against the library's own."""

import torch
from transformers.cache_utils import DynamicLayer

from turngym.agents.generation import RoomyLayer


def test_room_to_grow_changes_nothing_that_is_read() -> None:
    """Appends, rows that are dropped and reordered, and one row made many, in any order."""
    generator = torch.Generator().manual_seed(0)
    ours, plain = RoomyLayer(), DynamicLayer()

    def append(rows: int, new: int) -> None:
        keys, values = (torch.randn(rows, 2, new, 4, generator=generator) for _ in range(2))
        for got, expected in zip(ours.update(keys, values), plain.update(keys, values), strict=True):
            assert torch.equal(got, expected)

    append(1, 7)
    for layer in (ours, plain):
        layer.keys, layer.values = layer.keys.expand(5, -1, -1, -1), layer.values.expand(5, -1, -1, -1)
    for new in (1, 3, 1, 60, 1):
        append(5, new)
    for layer in (ours, plain):
        layer.batch_select_indices(torch.tensor([4, 0, 2]))
    for new in (1, 1, 40):
        append(3, new)
    assert ours.get_seq_length() == plain.get_seq_length() == 7 + 66 + 42


def test_appending_does_not_move_what_is_there() -> None:
    layer = RoomyLayer()
    first, _ = layer.update(torch.ones(2, 1, 10, 4), torch.ones(2, 1, 10, 4))
    places = {layer.update(torch.ones(2, 1, 1, 4), torch.ones(2, 1, 1, 4))[0].data_ptr() for _ in range(30)}
    assert places == {first.data_ptr()}
