"""The contract's names for the daemon's values, and the one message that is written by hand."""

from __future__ import annotations

from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.backends.base import BackendKind, Stream

KINDS = {
    BackendKind.DOCKER: pb.DOCKER,
    BackendKind.BUBBLEWRAP: pb.BUBBLEWRAP,
    BackendKind.SEATBELT: pb.SEATBELT,
    BackendKind.LOCAL: pb.LOCAL,
}
FROM_KINDS = {value: kind for kind, value in KINDS.items()}

STREAMS = {Stream.STDOUT: pb.STDOUT, Stream.STDERR: pb.STDERR}

# Tags of protocol buffers' wire format: the field's number, then 0 for a varint or 2 for bytes with their length.
_RECORD_DATA = bytes([pb.LogRecord.DATA_FIELD_NUMBER << 3 | 2])
_OFFSET = bytes([pb.Data.OFFSET_FIELD_NUMBER << 3])
_STREAM = {stream: bytes([pb.Data.STREAM_FIELD_NUMBER << 3, value]) for stream, value in STREAMS.items()}
_DATA = bytes([pb.Data.DATA_FIELD_NUMBER << 3 | 2])


def data_record(offset: int, stream: Stream, data: bytes) -> bytes:
    """A `LogRecord` of output, serialized.

    All of a command's output goes through here, and protobuf's own serializer takes 25 times as long for 64 KiB.
    """
    head = b"".join((_OFFSET, _varint(offset), _STREAM[stream], _DATA, _varint(len(data))))
    return b"".join((_RECORD_DATA, _varint(len(head) + len(data)), head, data))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
