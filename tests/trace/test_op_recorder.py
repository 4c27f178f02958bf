"""What the recorder of a trace keeps."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.legality.alias import storage_of


def test_the_number_of_a_freed_storage_is_not_used_again() -> None:
    mode = FakeTensorMode()
    with mode:
        recorder = Recorder(mode)
        numbers = [storage_of(torch.empty(3) + 1) for _ in range(50)]
        recorder.detach()
        freed_later = [storage_of(torch.empty(3) + 1) for _ in range(50)]
    assert len(set(numbers)) == 50
    assert len(set(freed_later)) < 50


def test_tensors_without_a_storage_are_passed_over() -> None:
    mode = FakeTensorMode()
    with mode:
        recorder = Recorder(mode)
        sparse = torch.eye(3).to_sparse()
        recorder.detach()
    assert sparse.layout is torch.sparse_coo
