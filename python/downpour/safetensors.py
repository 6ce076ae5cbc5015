"""Reads the safetensors files that `downpour export` writes (docs/MODEL_FILE.md), and refuses all others. Writes such
files too.

A file is 8 bytes of header length (little-endian), a JSON header, and the float32 numbers of all tensors.
"""

from __future__ import annotations

import json
import math
import os
from typing import IO, TYPE_CHECKING, Any, Mapping

from downpour.errors import ModelFileError

if TYPE_CHECKING:
    import numpy

MOST_HEADER_BYTES = 100_000_000  # as the safetensors library has it
MOST_DIMENSIONS = 16  # as a job file has it
ITEM_BYTES = 4


def read_safetensors(path: str, of_table: bool = False) -> dict[str, numpy.ndarray]:
    """Each tensor by its name, as a float32 array of its own that may be written to. What `downpour table export`
    writes has ids of int64 too, and may have no row.

    Raises ModelFileError if anything in the file is not as it should be, OSError if it cannot be read.
    """
    import numpy

    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        header, begin = _read_header(file, size, path)
        tensors = {}
        at = 0
        tensors_in = [(name, entry) for name, entry in header.items() if name != "__metadata__"]
        places = [(_place(name, entry, path, of_table), name) for name, entry in tensors_in]
        for (first, last, shape, kind), name in sorted(places):
            if first != at:
                raise ModelFileError(f"{path}: tensor {name} begins at {first}, but the one before ends at {at}")
            if last > size - begin:
                raise ModelFileError(f"{path}: tensor {name} ends at {last}, but there are {size - begin} bytes")
            numbers = numpy.fromfile(file, kind, (last - first) // numpy.dtype(kind).itemsize)
            if numbers.nbytes != last - first:
                raise ModelFileError(f"{path}: tensor {name} is cut short")
            tensors[name] = numbers.reshape(shape)
            at = last
    if at != size - begin:
        raise ModelFileError(f"{path}: {size - begin - at} bytes behind the last tensor belong to none")
    return tensors


def write_safetensors(path: str, tensors: Mapping[str, numpy.ndarray]) -> None:
    """Writes float32 arrays under their names, in their order. Raises OSError."""
    header: dict[str, Any] = {}
    at = 0
    for name, value in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the numbers are aligned
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for value in tensors.values():
            file.write(value.astype("<f4", copy=False).tobytes())


def _read_header(file: IO[bytes], size: int, path: str) -> tuple[dict[str, Any], int]:
    """(header, where the tensors begin)"""
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(MOST_HEADER_BYTES, size - 8):
        raise ModelFileError(f"{path}: no safetensors file: it has {size} bytes, and a header of {length}")
    try:
        header = json.loads(file.read(length).decode(), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: the header is no JSON: {error}") from error
    if not isinstance(header, dict):
        raise ModelFileError(f"{path}: the header is no JSON object")
    return header, 8 + length


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _place(name: str, entry: Any, path: str, of_table: bool) -> tuple[int, int, tuple[int, ...], str]:
    """(first byte, byte behind the last, shape, NumPy's word for the type), of which each fits the others."""
    entry = entry if isinstance(entry, dict) else {}
    are_ids = of_table and entry.get("dtype") == "I64"
    if entry.get("dtype") != "F32" and not are_ids:
        raise ModelFileError(f"{path}: tensor {name} is not of dtype F32, but {entry.get('dtype')}")
    shape, offsets = entry.get("shape"), entry.get("data_offsets")
    if not _are_counts(shape, 0 if of_table else 1) or len(shape) > MOST_DIMENSIONS:
        raise ModelFileError(f"{path}: tensor {name} has no good shape: {shape}")
    size = ITEM_BYTES * (2 if are_ids else 1)
    if not _are_counts(offsets, 0) or len(offsets) != 2 or offsets[1] - offsets[0] != math.prod(shape) * size:
        raise ModelFileError(f"{path}: tensor {name} of shape {shape} cannot have the data_offsets {offsets}")
    return offsets[0], offsets[1], tuple(shape), "<i8" if are_ids else "<f4"


def _are_counts(value: Any, least: int) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= least for item in value)
