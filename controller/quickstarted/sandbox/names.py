"""Names of the contract's enum values, for records and messages. No gRPC here."""

from __future__ import annotations

from google.protobuf.descriptor import EnumDescriptor


def name_of(enum: EnumDescriptor, value: int) -> str:
    """The name of an enum's value; its number when a newer runner sent one that this version does not know."""
    known = enum.values_by_number.get(value)
    return str(known.name) if known is not None else str(value)


def lower_name(enum: EnumDescriptor, value: int) -> str:
    """The name as records have it."""
    return name_of(enum, value).lower()
