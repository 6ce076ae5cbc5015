"""Files of records as datasets: the formats, places and columns that a job file's `data` has (docs/DATA.md).

    rows = downpour.data.csv("people/*.csv", ["age", "hours"], {"column": "income", "classes": ["low", "high"]})
    inputs, labels = rows.batch([5, 0])           # arrays of NumPy
    downpour.fit(model, train=rows, loss=torch.nn.CrossEntropyLoss())

A child process, `downpour data rows`, reads the files: none of them is held in memory, apart from those of idx(). A
dataset may be copied to other processes, as a DataLoader does; each has a child of its own, which ends with it.
"""

from __future__ import annotations

import json
import operator
import os
import subprocess
import sys
import threading
import weakref
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

from downpour.errors import ToolError, TrainingError, kind_of
from downpour.job_settings import as_json
from downpour.tool import Path, Tool

Files = Union[Path, Sequence[Path]]
ColumnSpec = Union[str, Mapping[str, Any]]
LabelSpec = Union[ColumnSpec, Sequence[str]]

_MOST_ASKED = 1 << 24  # rows at once, as the child hears


class Column(NamedTuple):
    """One of a dataset's: of type "uint8", "float32" or "int64", with `width` values in each row.

    `categories`: a value is from 0 to below it. 0: any, as of the keys of tables, where -2^63 stands behind the last.
    """

    name: str
    type: str
    width: int
    categories: int


class Rows:
    """A map-style dataset of the records of files, in the order of the files.

    An item is (inputs, label), or the inputs alone where the data have no label; a batch likewise, of arrays with a row
    for each. `matrix` says of what form the inputs are. With it they are one float32 array [n, width]: the numbers of
    all columns beside each other, and of a category one for each that there is, which is 1 for that of the row. Without
    it they are a dict of arrays by name, of float32 [n] for numbers and int64 [n] for categories and keys, or
    [n, width] where a column has several. A label is int64 [n], the number of a class, or float32 [n]; of sets of
    classes float32 [n, classes] of 0 and 1.
    """

    def __init__(self, data: Mapping[str, Any], labels: str, matrix: Optional[bool], tool: Optional[Path]) -> None:
        if labels not in ("classes", "numbers"):
            raise TrainingError(f'labels is {labels!r}, but must be "classes" or "numbers"')
        try:
            self._question = json.dumps({"data": data, "labelsAreNumbers": labels == "numbers"}, default=as_json)
        except (TypeError, ValueError) as error:
            raise TrainingError(f"the data are described by texts, numbers, lists and dicts: {error}") from error
        self._tool = tool
        self._reader: Optional[_Reader] = None
        self._said: Optional[dict] = None  # by the first child; any other must say the same
        said = self._said = self._open().said
        columns = tuple(Column(**column) for column in said["columns"])
        self._length = said["rows"]
        self._columns = columns
        self._block = said["blockExamples"]
        self.fingerprint = said["fingerprint"]
        """Of all their bytes: copies of the files have the same, however they are packed."""
        self.label = columns[-1] if said["hasLabel"] else None
        self.columns = columns if self.label is None else columns[:-1]
        """Of the inputs, in their order."""
        has_keys = any(column.type == "int64" and not column.categories for column in self.columns)
        if matrix and has_keys:
            raise TrainingError("keys are no numbers of a matrix: leave matrix= out, and read them from the dict")
        self.matrix = all(column.type != "int64" for column in self.columns) if matrix is None else bool(matrix)

    @property
    def width(self) -> int:
        """Of the matrix: numbers in a row."""
        return sum(column.categories or column.width for column in self.columns)

    @property
    def settings(self) -> dict[str, Any]:
        """Of the job that trains on them: records that lie together are read together."""
        return {"data.order": "blocks", "data.blockExamples": self._block}

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, number: Any) -> Any:
        """The item of this number, or for a slice the batch of its rows. Raises IndexError beyond the end."""
        if isinstance(number, slice):
            return self.batch(range(*number.indices(self._length)))
        try:
            place = operator.index(number)
        except TypeError:
            raise TypeError(f"rows have whole numbers or slices, but this is {kind_of(number)}") from None
        if not -self._length <= place < self._length:
            raise IndexError(f"there is no row {place}: there are {self._length}")
        return self.__getitems__([place % self._length])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list:
        """The items of these numbers, which are read together: a DataLoader asks for them so."""
        batch = self.batch(numbers)
        inputs, labels = (batch, None) if self.label is None else batch
        if not isinstance(inputs, dict):
            items: list = list(inputs)
        else:
            items = [{name: array[row] for name, array in inputs.items()} for row in range(len(numbers))]
        return items if labels is None else list(zip(items, labels))

    def batch(self, numbers: Sequence[int]) -> Any:
        """(inputs, labels), or inputs, of the rows of these whole numbers. Those below 0 count from the end.

        Raises ToolError, with file and place, for a record that cannot be read, and IndexError beyond the end.
        """
        import numpy

        places, reader = self._places(numbers), self._open()
        try:
            values = reader.read(places, self._columns)
        except ToolError:
            if reader.process:
                raise
            values = self._open().read(places, self._columns)  # its child has ended, such as for lack of memory
        arrays = [array[:, 0] if column.width == 1 else array for column, array in zip(self._columns, values)]
        labels = None if self.label is None else arrays.pop()
        inputs: Any
        if self.matrix:
            inputs = self._beside(arrays, len(numbers))
        else:
            inputs = {column.name: array for column, array in zip(self.columns, arrays)}
        return inputs if labels is None else (inputs, labels)

    def _places(self, numbers: Sequence[int]) -> Any:
        """Of uint64 [n], each below the length."""
        import numpy

        asked = numpy.asarray(numbers)
        if not asked.size:
            return numpy.empty(0, numpy.uint64)
        if asked.ndim != 1 or asked.dtype.kind not in "iu":
            raise TypeError(
                f"a batch is a list of whole numbers, but this has {asked.dtype} of shape {list(asked.shape)}"
            )
        beyond = asked[(asked < -self._length) | (asked >= self._length)]
        if beyond.size:
            raise IndexError(f"there is no row {beyond[0]}: there are {self._length}")
        return (asked.astype(numpy.int64) % self._length).astype(numpy.uint64)

    def _beside(self, arrays: list, count: int) -> Any:
        import numpy

        parts = []
        for column, array in zip(self.columns, arrays):
            if column.type == "int64":
                part = numpy.zeros((count, column.categories), numpy.float32)
                part[numpy.arange(count), array] = 1
            else:
                part = array.reshape(count, column.width)
                part = part / numpy.float32(255) if column.type == "uint8" else part  # as a job has pixels
            parts.append(part)
        return parts[0] if len(parts) == 1 else numpy.concatenate(parts, axis=1)

    def _open(self) -> _Reader:
        """The child of this process. What another process has forked needs one of its own, and finds the same files."""
        if self._reader is None or self._reader.process != os.getpid():
            reader = _Reader(self._question, self._tool)
            if self._said not in (None, reader.said):
                raise ToolError("the files have other rows than when they were opened: open them again", 1)
            self._reader = reader
        return self._reader

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_reader": None}

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self.columns)
        return f"<{self._length} rows of {names}{'' if self.label is None else ' with a label'}>"


class _Reader:
    """The child that reads. Threads ask it one at a time."""

    def __init__(self, question: str, tool: Optional[Path]) -> None:
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._child = Tool(tool).start(["data", "rows"], subprocess.PIPE, None, subprocess.PIPE)
        self._ends = weakref.finalize(self, _end, self._child, self.process)
        self._tell(question.encode() + b"\n")
        line = bytearray()
        while not line.endswith(b"\n"):
            line += self._hear(1)
        self.said = json.loads(line)
        if "error" in self.said:
            raise ToolError(self.said["error"], 1)

    def read(self, numbers: Any, columns: Sequence[Column]) -> list:
        """An array [n, width] of each column."""
        import numpy

        if len(numbers) > _MOST_ASKED:
            raise TrainingError(f"{len(numbers)} rows are more than {_MOST_ASKED} at once: ask for fewer")
        arrays = [numpy.empty((len(numbers), column.width), column.type) for column in columns]
        with self._lock:
            try:
                self._tell(len(numbers).to_bytes(4, sys.byteorder) + numbers.tobytes())
                wrong = self._hear(int.from_bytes(self._hear(4), sys.byteorder))
                if not wrong:
                    for array in arrays:
                        self._fill(memoryview(array.reshape(-1)).cast("B") if array.size else memoryview(b""))
            except BaseException:  # Ctrl-C: the rest of this answer would be taken for the next one
                self.process = 0
                self._ends()
                raise
        if wrong:
            raise ToolError(bytes(wrong).decode(errors="replace"), 1)
        return arrays

    def _tell(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[self._child.stdin.write(left) :]
        except (OSError, ValueError):  # the latter: another thread was interrupted, and has closed the pipes
            raise self._ended() from None

    def _hear(self, count: int) -> bytearray:
        data = bytearray(count)
        self._fill(memoryview(data))
        return data

    def _fill(self, place: memoryview) -> None:
        while place:
            got = self._child.stdout.readinto(place)
            if not got:
                raise self._ended()
            place = place[got:]

    def _ended(self) -> ToolError:
        self.process = 0  # whoever reads next starts another child
        code = self._child.wait()
        return ToolError(f"downpour data rows ended with {code} amid its work: what it printed says why", 1)


def _end(child: subprocess.Popen, process: int) -> None:
    """Nobody asks any more. In a process that was forked it is no child, which is not waited for."""
    child.stdin.close()
    child.stdout.close()
    if process == os.getpid():
        child.kill()  # it may not see that the pipes are closed: processes that were forked have them, too
        child.wait()
    else:
        child.returncode = 0


def csv(
    files: Files,
    columns: Sequence[ColumnSpec],
    label: Optional[LabelSpec] = None,
    *,
    separator: Optional[str] = None,
    decimal: Optional[str] = None,
    header: Optional[bool] = None,
    fields: Optional[Sequence[str]] = None,
    labels: str = "classes",
    matrix: Optional[bool] = None,
    skip: int = 0,
    tool: Optional[Path] = None,
) -> Rows:
    """Records of CSV, packed by gzip or zstd or not.

    files: a path, an address (https, s3, gs), a pattern of either, or a list of those, read one behind the other.
    columns: names of fields, or dicts such as {"name": "age", "default": 40, "log": True}.
    label: a name, or a dict such as {"column": "income", "classes": ["low", "high"]}; or names of fields of 0 and 1.
    labels: "classes", or "numbers" for a squared error.
    matrix: whether inputs are one array (Rows). By default they are if no column is of categories or keys.
    skip: so many records that cannot be read are left out; more are an error.
    separator, decimal, header, fields: of the files, where they do not show it by themselves.
    tool: the program `downpour` (downpour.run).

    Raises ToolError for what the files or the columns lack, and ToolNotFound.
    """
    how = {"separator": separator, "decimal": decimal, "header": header, "fields": fields}
    return _records("csv", files, columns, label, labels, matrix, skip, tool, **how)


def _reads(form: str, what: str) -> Callable[..., Rows]:
    def read(
        files: Files,
        columns: Sequence[ColumnSpec],
        label: Optional[LabelSpec] = None,
        *,
        labels: str = "classes",
        matrix: Optional[bool] = None,
        skip: int = 0,
        tool: Optional[Path] = None,
    ) -> Rows:
        return _records(form, files, columns, label, labels, matrix, skip, tool)

    read.__name__ = read.__qualname__ = form
    read.__doc__ = f"{what} The arguments are those of csv()."
    return read


jsonl = _reads("jsonl", "An object of JSON on each line, packed or not.")
libsvm = _reads("libsvm", "Lines of libsvm, packed or not.")
tfrecord = _reads("tfrecord", "A tf.train.Example in each record of TFRecord, packed or not.")
parquet = _reads("parquet", "Rows of Parquet, where the module for it was built.")
criteo = _reads("criteo", "Criteo's logs, packed or not.")
cifar10 = _reads("cifar10", "The binary version of CIFAR-10.")
cifar100 = _reads("cifar100", "The binary version of CIFAR-100.")


def idx(images: Path, labels: Path, *, tool: Optional[Path] = None) -> Rows:
    """Images and labels as MNIST has them, packed by gzip or not. A row of the matrix has pixels from 0 to 1."""
    train = {"images": _path(images), "labels": _path(labels)}
    return Rows({"format": "idx", "train": train}, "classes", None, tool)


def _records(
    form: str,
    files: Files,
    columns: Sequence[ColumnSpec],
    label: Optional[LabelSpec],
    labels: str,
    matrix: Optional[bool],
    skip: int,
    tool: Optional[Path],
    **how: Any,
) -> Rows:
    if isinstance(columns, (str, Mapping)):
        raise TrainingError(f"columns is {kind_of(columns)}: give a list of names, or of dicts as a job file has them")
    data = {
        "format": form,
        "train": [_path(file) for file in ([files] if isinstance(files, (str, os.PathLike)) else _listed(files))],
        "columns": [_column(column) for column in columns],
        "label": label,
        "skip": skip,
        **how,
    }
    return Rows({key: value for key, value in data.items() if value is not None}, labels, matrix, tool)


def _column(column: Any) -> dict:
    if isinstance(column, str):
        return {"name": column}
    if isinstance(column, Mapping):
        return dict(column)
    raise TrainingError(f"a column is {kind_of(column)}: give its name, or a dict as a job file has it")


def _listed(files: Any) -> list:
    if isinstance(files, bytes) or not hasattr(files, "__iter__"):
        raise TrainingError(f"files is {kind_of(files)}: give a path, an address, or a list of those")
    return list(files)


def _path(file: Any) -> str:
    if not isinstance(file, (str, os.PathLike)):
        raise TrainingError(f"a file is {kind_of(file)}: give its path as text, or its address")
    path = os.fsdecode(file)
    try:
        path.encode()
    except UnicodeError:
        raise TrainingError(f"the path {path!r} is not UTF-8: give the file another name, or a link to it") from None
    return path
