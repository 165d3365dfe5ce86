"""The message that is written by hand is the message that protobuf would write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.backends.base import BackendKind, Stream

from sandboxd import wire


@given(
    offset=st.integers(0, 2**64 - 1),
    stream=st.sampled_from(Stream),
    data=st.one_of(st.binary(max_size=300), st.integers(1, 70_000).map(bytes)),
)
def test_a_record_of_output_reads_back_as_itself(offset: int, stream: Stream, data: bytes) -> None:
    record = pb.LogRecord.FromString(wire.data_record(offset, stream, data))
    assert record == pb.LogRecord(data=pb.Data(offset=offset, stream=wire.STREAMS[stream], data=data))


@pytest.mark.parametrize("kind", BackendKind)
def test_each_backend_has_the_name_of_the_contract(kind: BackendKind) -> None:
    assert pb.BackendKind.Name(wire.KINDS[kind]) == kind.name
    assert wire.FROM_KINDS[wire.KINDS[kind]] is kind
