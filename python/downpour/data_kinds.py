"""What has no examples by number, such as a stream: refused by its kind, with the lines to write instead.

A job asks for examples by their numbers, since any worker may compute any of them. A stream would have to be begun
again for each of them. Some such kinds inherit a `[]` that raises, or have one of whole batches, so that neither `[]`
nor the length would tell.
"""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple

from downpour.errors import TrainingError, kind_of


class _Kind(NamedTuple):
    package: str
    name: str  # of the class, or of one that it derives from
    what: str
    remedy: str  # where any dataset may be given
    lines: str  # that make arrays of it, where they alone may be


_OF_EXAMPLES = "x, y = (numpy.stack(part) for part in zip(*{}))"
_OF_BATCHES = "x, y = (numpy.concatenate(part) for part in zip(*{}))"
_IN_MEMORY = "give list(DATASET) where that fits into memory, or a dataset with __getitem__(number) and __len__"
_ALL_BATCHES = _OF_BATCHES.format("[DATA[i] for i in range(len(DATA))]")
_OF_TF = _OF_EXAMPLES.format("DATASET.as_numpy_iterator()") + " of a DATASET without .batch() and .repeat()"

_KINDS = [
    _Kind("torch", "IterableDataset", "a stream", _IN_MEMORY, _OF_EXAMPLES.format("DATASET")),
    _Kind("datasets", "IterableDataset", "a stream", _IN_MEMORY, _OF_EXAMPLES.format("DATASET")),
    _Kind(
        "torch",
        "DataLoader",
        "of whole batches",
        "give its dataset, and batch_size= and collate= beside it",
        _OF_BATCHES.format("LOADER"),
    ),
    _Kind("tensorflow", "DatasetV2", "a stream", f"write {_OF_TF}, and give (x, y)", _OF_TF),
    *(
        _Kind(package, name, "of whole batches", f"write {_ALL_BATCHES}, and give (x, y)", _ALL_BATCHES)
        for package in ("keras", "tf_keras")
        for name in ("PyDataset", "Sequence")
    ),
]


def refuse(data: Any, argument: str, arrays: str = "") -> None:
    """Raises TrainingError if `data` are of such a kind. `argument` is what they were given as. `arrays`: what the call
    takes, if that is arrays alone, such as "x and y"."""
    for kind in _KINDS:
        if _is(data, kind.package, kind.name):
            remedy = f"write {kind.lines}, and give {arrays}" if arrays else kind.remedy
            raise TrainingError(
                f"{argument} is {kind_of(data)}, {kind.what}, but a job asks for examples by their numbers: {remedy}"
            )
    if isinstance(data, Iterator):
        remedy = f"write {_OF_EXAMPLES.format('IT')}, and give {arrays}" if arrays else "give list(IT)"
        raise TrainingError(
            f"{argument} is {kind_of(data)}, which can be read once, but a job asks for examples by their numbers, "
            f"again and again: {remedy}, where IT has an end and fits into memory"
        )
    if _has_no_items(data):
        raise TrainingError(
            f"{argument} is {kind_of(data)} without a __getitem__ of its own, but a job asks for examples by their "
            "numbers: give it def __getitem__(self, number)"
        )


def _is(data: Any, package: str, name: str) -> bool:
    return (package, name) in [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(data).__mro__]


def _has_no_items(data: Any) -> bool:
    """Whether its `[]` is the one of torch's base class, which raises."""
    owner = next((kind for kind in type(data).__mro__ if "__getitem__" in vars(kind)), object)
    return owner.__name__ == "Dataset" and owner.__module__.partition(".")[0] == "torch"
