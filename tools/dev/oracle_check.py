#!/usr/bin/env python3
"""Computes from the names of a job's batches what its variables must hold, and compares a checkpoint with that.

    tools/dev/oracle_check.py JOB_FOLDER/checkpoints/1-5

For jobs whose workers are tools/dev/oracle_worker, which says how gradients follow from their names. Each slice says in
its record which steps of which leases it holds; its values must be the exact sum of their gradients, from zeros on. A
bucket of tables must have the rows of all keys that these steps had, and no others. The last line has the
position-weighted checksum of all values of variables. Reads files as docs/CHECKPOINT_FORMAT.md has them, and
shares no code with the programs that it checks. Exits 1 if any element differs, 2 if it cannot tell.
"""

import collections
import dataclasses
import json
import math
import pathlib
import shutil
import struct
import sys

from lease_plan import Plan, Unreadable, read_manifest

WORD = 1 << 64
PERIOD = 1021
HIGHEST = 3  # element of a gradient, as is its opposite
KEYS = 4000  # of each table
KEYS_OF_STEP = 4
BUCKETS = 11  # the draw of BucketOf
EXACT = 1 << 24  # up to here float32 holds every integer
MOST_PRINTED = 20


def mix(z):
    """Source: splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    z = (z + 0x9E3779B97F4A7C15) % WORD
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB % WORD
    return z ^ z >> 31


def mix_all(first, *rest):
    state = mix(first)
    for number in rest:
        state = mix(state ^ number)
    return state


SEQUENCE = [mix(place) % 7 - HIGHEST for place in range(PERIOD)]


@dataclasses.dataclass
class Slice:
    number: int
    variable: str
    values: tuple
    finished: list  # [begin, end) of leases
    begun: dict  # lease -> steps
    rows: dict = dataclasses.field(default_factory=dict)  # of a bucket: (table, key) -> values


def steps_in(plan, piece):
    """(lease, step) of each push that a slice says it holds."""
    for begin, end in piece.finished:
        for lease in range(begin, end):
            yield from ((lease, step) for step in range(1, plan.steps_of(lease) + 1))
    for lease, applied in piece.begun.items():
        yield from ((lease, step) for step in range(1, applied + 1))


def variables_of(model):
    """(name, elements) in the order of the slices, of dense layers one behind the other."""
    if "tables" in model:  # whose rows lie side by side
        width = sum(table["width"] for table in model["tables"])
    else:
        width = math.prod(model["inputs"][0]["shape"])
    for layer in model["layers"]:
        if "embedding" in layer or "concat" in layer:
            continue
        if "dense" not in layer:
            raise Unreadable("a model of dense layers is wanted")
        units = layer["dense"]["units"]
        yield layer["name"] + "/kernel", width * units
        if layer["dense"]["bias"]:
            yield layer["name"] + "/bias", units
        width = units


def job_of(manifest):
    job = json.loads(manifest["job"])
    optimizer = job["training"]["optimizer"]
    plain = {"name": "sgd", "learningRate": 1, "weightDecay": 0, "schedule": {"name": "constant", "warmupSteps": 0}}
    if any(optimizer.get(key, value) != value for key, value in plain.items()) or "overrides" in optimizer:
        raise Unreadable("exact sums want training.optimizer={name: sgd, learningRate: 1}, and nothing else of it")
    if job["training"].get("staleness", {"method": "none"})["method"] != "none":
        raise Unreadable("exact sums want training.staleness.method=none")
    return job


def read_slice(data, number, variable):
    head = struct.unpack_from("<8sIIIIQIIII", data)
    magic, header_bytes, slice_id, _, _, _, bytes_of_values, slots, intervals, counters = head
    if magic != b"DPSLICE1" or slice_id != number or slots != 0 or (bytes_of_values == 0) != (variable == ""):
        raise Unreadable(f"record {number} is not one of slice {number} without slots")
    at = 52
    finished = [struct.unpack_from("<QQ", data, at + 16 * i) for i in range(intervals)]
    at += 16 * intervals
    begun = dict(struct.unpack_from("<QI", data, at + 12 * i) for i in range(counters))
    values = struct.unpack_from(f"<{bytes_of_values // 4}f", data, header_bytes)
    rows = read_rows(data, header_bytes) if variable == "" else {}
    return Slice(number, variable, values, finished, begun, rows)


def read_rows(data, at):
    """Of a bucket's record, from the parts behind its header."""
    rows = {}
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        table, _, _, clock, _, base, _, _, width, _, _, _, _, count = struct.unpack_from("<QQIIQ9I", data, at + 16)
        if data[at + 8 : at + 16] != b"DPTABLE1" or base != 0:
            raise Unreadable("a part of a bucket's record is none of a whole one")
        row = 16 + 4 * width
        for place in range(at + 16 + 80, at + 16 + 80 + count * row, row):
            _, last, key = struct.unpack_from("<IIQ", data, place)
            if (table, key) in rows or last > clock:
                raise Unreadable(f"key {key} of table {table} comes twice, or from later than its bucket")
            rows[table, key] = struct.unpack_from(f"<{width}f", data, place + 16)
        at += 8 + length
    return rows


def read_slices(folder, manifest, job):
    variables = variables_of(job["model"])
    name, left = "", 0
    slices = []
    for number, record in enumerate(manifest["records"]):
        with open(folder / manifest["files"][record["file"]]["name"], "rb") as file:
            file.seek(record["offset"])
            data = file.read(record["bytes"])
        if left == 0:
            name, left = next(variables, ("", 0))  # buckets are behind all variables
        piece = read_slice(data, number, name)
        left -= len(piece.values)
        slices.append(piece)
    if left != 0 or next(variables, None) is not None:
        raise Unreadable("the slices are not those of the model's variables")
    return slices


def expected(seed, plan, piece):
    """What the slice's elements must hold."""
    pushes = collections.Counter(
        mix_all(seed, lease, step, piece.number) % PERIOD for lease, step in steps_in(plan, piece))
    if pushes.total() * HIGHEST >= EXACT:
        raise Unreadable(f"sums of {pushes.total()} pushes may leave what float32 holds exactly")
    period = [-sum(count * SEQUENCE[(place + i) % PERIOD] for place, count in pushes.items())
              for i in range(min(PERIOD, len(piece.values)))]
    return [period[i % PERIOD] for i in range(len(piece.values))]


def expected_rows(job, plan, piece, bucket):
    """(table, key) -> what the row must hold."""
    tables = job["model"]["tables"]
    buckets = job["model"].get("tableBuckets", 32)
    all_keys = [[key for key in range(KEYS) if (mix_all(BUCKETS, table, key) >> 32) * buckets >> 32 == bucket]
                for table in range(len(tables))]  # fmt: skip
    rows = {}
    for lease, step in steps_in(plan, piece):
        for number, (table, keys) in enumerate(zip(tables, all_keys)):
            name = (job["seed"], lease, step, piece.number, number)
            places = {mix_all(*name, i) % len(keys) for i in range(KEYS_OF_STEP)} if keys else ()
            for key in {keys[place] for place in places}:
                begin = mix_all(*name, key)
                row = rows.setdefault((number, key), [0] * table["width"])
                for j in range(len(row)):
                    row[j] -= SEQUENCE[(begin + j) % PERIOD]
    return rows


def compare_rows(job, plan, slices):
    """Findings of all buckets."""
    buckets = [piece for piece in slices if piece.variable == ""]
    findings = []
    for number, piece in enumerate(buckets):
        right = expected_rows(job, plan, piece, number)
        wrong = [at for at in right.keys() | piece.rows.keys() if list(piece.rows.get(at, ())) != right.get(at)]
        if wrong:
            at = min(wrong)
            findings.append(f"bucket {number}: {len(wrong)} of {len(right)} rows differ; that of table {at[0]}, key "
                            f"{at[1]} is {piece.rows.get(at)}, and what the bucket holds sums to {right.get(at)}")
    if buckets:
        print(f"{sum(len(piece.rows) for piece in buckets)} rows in {len(buckets)} buckets")
    return findings


def checksum(elements, first):
    """Weighted by position, so that one lost and one doubled push do not cancel."""
    return sum(int(element) * mix(position) for position, element in enumerate(elements, first)) % WORD


def compare(seed, plan, slices):
    """(findings, checksum of what is there, checksum of what ought to be) over all biases."""
    findings, found, wanted, first = [], 0, 0, 0
    for piece in slices:
        if piece.variable.endswith("/kernel") or piece.variable == "":
            continue
        right = expected(seed, plan, piece)
        wrong = [i for i, (held, sum_of) in enumerate(zip(piece.values, right)) if held != sum_of]
        if wrong:
            at = wrong[0]
            findings.append(f"slice {piece.number} ({piece.variable}): {len(wrong)} elements differ; element {at} is "
                            f"{piece.values[at]:g}, and what the slice says it holds sums to {right[at]}")
        found += checksum(piece.values, first)
        wanted += checksum(right, first)
        first += len(right)
    return findings, found % WORD, wanted % WORD


def programs(build, folder, worker="oracle_worker"):
    """The tool in a folder of its own, beside programs of which the worker is that one of tools/dev."""
    folder.mkdir()
    for role in ("chief", "ps"):
        (folder / f"downpour-{role}").symlink_to((build / role / f"downpour-{role}").resolve())
    (folder / "downpour-worker").symlink_to((build / "tools/dev" / worker).resolve())
    return pathlib.Path(shutil.copy(build / "tools/downpour", folder))


def check(folder):
    manifest = read_manifest(folder / "MANIFEST")
    job = job_of(manifest)
    plan = Plan.of_manifest(manifest)
    slices = read_slices(folder, manifest, job)
    findings, found, wanted = compare(job["seed"], plan, slices)
    findings += compare_rows(job, plan, slices)
    for finding in findings[:MOST_PRINTED]:
        print(finding)
    committed = sum(end - begin for begin, end in manifest["committed"])
    same = not findings and found == wanted
    print(f"{committed} of {plan.leases} leases are in every slice; checksum {found:016x}, of the batches "
          f"{wanted:016x}: {'exact' if same else 'DIFFERENT'}")
    return 0 if same else 1


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        return check(pathlib.Path(sys.argv[1]))
    except (Unreadable, OSError, LookupError, ValueError, struct.error) as error:
        print(f"oracle_check: {type(error).__name__}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
