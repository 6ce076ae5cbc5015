"""Files that models are in, and images, read without any code of ours."""

import gzip
import json
import pathlib
import struct

import numpy


def read_safetensors(path):
    raw = pathlib.Path(path).read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    values = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        numbers = numpy.frombuffer(raw[8 + size + begin : 8 + size + end], "<f4")
        values[name] = numbers.reshape(entry["shape"]).astype("float64")
    return values


def unpacked(path):
    raw = path.read_bytes()
    return gzip.decompress(raw) if path.suffix == ".gz" else raw


def images_in(path):
    """[images, numbers of one]"""
    raw = unpacked(path)
    count, rows, columns = struct.unpack(">III", raw[4:16])
    return numpy.frombuffer(raw[16:], "uint8").reshape(count, rows * columns)


def labels_in(path):
    return numpy.frombuffer(unpacked(path)[8:], "uint8")
