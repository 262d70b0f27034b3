"""Reads rows out of a damaged SQLite file, page by page, as the shell's `.recover` does: no header, no tree is needed.

Source: the SQLite database file format, https://sqlite.org/fileformat2.html, sections 1.6 (b-tree pages), 2.1 (record
format) and 4.1 (WAL).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

Value: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = tuple[int, list[Value]]  # rowid, columns; the column that is the rowid is None

_Page: TypeAlias = Callable[[int], bytes]  # by number, from 1; short or empty where it is lost

_TABLE_LEAF = 0x0D
_WAL_HEADER, _FRAME_HEADER = 32, 24
_HEADER = 100  # bytes of page 1 before its b-tree


def rows(file: Path, page_size: int) -> Iterator[Row]:
    """Every row that a table leaf of the file or of its write-ahead log holds whole. Raises OSError."""
    newer = _logged(file.with_name(file.name + "-wal"), page_size)
    data = file.read_bytes()
    count = max([len(data) // page_size, *newer])

    def page(number: int) -> bytes:
        return newer.get(number) or data[(number - 1) * page_size : number * page_size]

    for number in range(1, count + 1):
        content = page(number)
        if len(content) == page_size:
            yield from _leaf(content, _HEADER if number == 1 else 0, page, page_size)


def _logged(wal: Path, page_size: int) -> dict[int, bytes]:
    """The newest committed content of each page in the log."""
    try:
        data = wal.read_bytes()
    except OSError:
        return {}
    salts = data[16:24]
    committed: dict[int, bytes] = {}
    waiting: dict[int, bytes] = {}
    for at in range(_WAL_HEADER, len(data) - _FRAME_HEADER - page_size + 1, _FRAME_HEADER + page_size):
        number, commits = struct.unpack_from(">II", data, at)
        if data[at + 8 : at + 16] != salts or number == 0:
            break
        waiting[number] = data[at + _FRAME_HEADER : at + _FRAME_HEADER + page_size]
        if commits:
            committed |= waiting
            waiting = {}
    return committed


def _leaf(content: bytes, start: int, page: _Page, page_size: int) -> Iterator[Row]:
    if content[start] != _TABLE_LEAF:
        return
    cells = int.from_bytes(content[start + 3 : start + 5], "big")
    for index in range(min(cells, (page_size - start - 8) // 2)):
        (at,) = struct.unpack_from(">H", content, start + 8 + 2 * index)
        try:
            row = _cell(content, at, page, page_size)
        except (IndexError, ValueError, struct.error):
            continue
        yield row


def _cell(content: bytes, at: int, page: _Page, page_size: int) -> Row:
    """Raises ValueError, IndexError or struct.error for what is no whole row."""
    length, at = _varint(content, at)
    rowid, at = _varint(content, at)
    local = _local(length, page_size)
    payload = content[at : at + local]
    if local < length:
        (number,) = struct.unpack_from(">I", content, at + local)
        payload += _overflow(number, length - local, page, page_size)
    if len(payload) != length:
        raise ValueError("cut")
    return rowid - (1 << 64 if rowid >> 63 else 0), _record(payload)


def _local(length: int, usable: int) -> int:
    """How much of a payload stands in the leaf itself (section 1.6)."""
    most = usable - 35
    if length <= most:
        return length
    least = (usable - 12) * 32 // 255 - 23
    kept = least + (length - least) % (usable - 4)
    return kept if kept <= most else least


def _overflow(number: int, length: int, page: _Page, page_size: int) -> bytes:
    parts: list[bytes] = []
    while length > 0 and number:
        content = page(number)
        if len(content) != page_size:
            raise ValueError("lost page")
        parts.append(content[4 : 4 + min(length, page_size - 4)])
        length -= page_size - 4
        (number,) = struct.unpack_from(">I", content)
    return b"".join(parts)


def _record(payload: bytes) -> list[Value]:
    size, at = _varint(payload, 0)
    if not at <= size <= len(payload):
        raise ValueError("no record")
    kinds: list[int] = []
    while at < size:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: list[Value] = []
    for kind in kinds:
        value, at = _value(payload, at, kind)
        values.append(value)
    return values


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, at
    if kind <= 6:
        width = (1, 2, 3, 4, 6, 8)[kind - 1]
        return int.from_bytes(_taken(payload, at, width), "big", signed=True), at + width
    if kind == 7:
        return struct.unpack_from(">d", payload, at)[0], at + 8
    if kind in (8, 9):
        return kind - 8, at
    if kind < 12:
        raise ValueError("no such kind")
    width = (kind - 12) // 2
    data = _taken(payload, at, width)
    return (data.decode("utf-8") if kind % 2 else data), at + width


def _taken(payload: bytes, at: int, width: int) -> bytes:
    data = payload[at : at + width]
    if len(data) != width:
        raise ValueError("cut")
    return data


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(8):
        byte = data[at + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    return value << 8 | data[at + 8], at + 9
