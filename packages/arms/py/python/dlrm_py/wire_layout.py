"""Where the tensors of a request stand in its message.

A client's messages of one request size differ only in their data: tags, lengths, names, shapes and types are the same
bytes at the same places. A layout is such a message without its data. What matches it needs no parsing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_LENGTH_DELIMITED = 2
# Field numbers of dlrm.serving.v1: PredictRequest.inputs, an entry of that map, HostBuffer.data.
_INPUTS = 2
_KEY = 1
_VALUE = 2
_DATA = 3


class WireLayout:
    """The bytes of a message around its data."""

    def __init__(self, message: bytes, data: dict[str, tuple[int, int]]) -> None:
        """``data``: first and last + 1 of each input's bytes (``find_data``)."""
        self.num_bytes = len(message)
        self._data = data
        around = []
        at = 0
        for first, last in sorted(data.values()):
            around.append(slice(at, first))
            at = last
        around.append(slice(at, len(message)))
        self._around = [part for part in around if part.start < part.stop]
        self._expected = b"".join([message[part] for part in self._around])

    def matches(self, message: bytes) -> bool:
        """Whether ``message`` differs from the one the layout was made of only in data."""
        return (
            len(message) == self.num_bytes
            and b"".join([message[part] for part in self._around]) == self._expected
        )

    def slices(self, names: Iterable[str]) -> list[slice]:
        """Where the data of some inputs stand."""
        return [slice(*self._data[name]) for name in names]


def find_data(message: bytes) -> dict[str, tuple[int, int]] | None:
    """Where the data of each input of a PredictRequest stands, for a message that protobuf has parsed. None if it is
    written in an unusual way: an input or a field twice, or one without data."""
    found: dict[str, tuple[int, int]] = {}
    for field, first, last in _fields(message, 0, len(message)):
        if field != _INPUTS:
            continue
        parts = list(_fields(message, first, last))
        if [part[0] for part in parts] != [_KEY, _VALUE]:
            return None
        (_key, key_first, key_last), (_value, value_first, value_last) = parts
        data = [part for part in _fields(message, value_first, value_last) if part[0] == _DATA]
        name = message[key_first:key_last].decode("utf-8", "replace")
        if len(data) != 1 or name in found:
            return None
        found[name] = data[0][1:]
    return found


def _fields(message: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number, first byte and last + 1 of each length-delimited field; others are passed over."""
    while at < end:
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            size, at = _varint(message, at)
            yield tag >> 3, at, at + size
            at += size
        elif kind == 0:
            _value, at = _varint(message, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            # A group, which nobody writes any more: what it holds is not looked at.
            return


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
