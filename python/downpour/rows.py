"""Rows of an array by their positions, whatever its own `[]` means."""

from __future__ import annotations

from typing import Any, Sequence

import numpy

from downpour.errors import TrainingError, kind_of


def positional(data: Any, argument: str) -> Any:
    """Something of as many rows whose rows `at` finds by position. What is by position anyway is returned as it is.

    A pandas Series or DataFrame finds rows by their labels, and a DataFrame columns: their numbers are taken, copied
    where they have several types. A sparse matrix of SciPy is brought into a form that has rows.
    """
    if hasattr(data, "iloc") and hasattr(data, "to_numpy"):
        try:
            array = data.to_numpy(dtype=_common_type(data))
        except (TypeError, ValueError) as error:
            raise TrainingError(f"{argument} has {kind_of(data)} with missing values: fill them ({error})") from error
        if array.dtype.kind not in "biufc":
            raise TrainingError(
                f"{argument} has {kind_of(data)} of strings, dates, categories or types that do not go together: "
                "encode them as numbers, such as by .astype or pandas.get_dummies"
            )
        return array
    if numpy.ma.is_masked(data):
        raise TrainingError(f"{argument} has an array with a mask, which nothing here heeds: give array.filled(VALUE)")
    if hasattr(data, "tocsr"):
        return data.tocsr()
    if not str(getattr(data, "layout", "torch.strided")).endswith("strided"):
        raise TrainingError(
            f"{argument} has a sparse tensor, whose rows cannot be picked: give tensor.to_dense(), or a "
            "scipy.sparse.csr_matrix, of which each batch alone is made dense"
        )
    return data


def _common_type(data: Any) -> Any:
    """Of numbers and booleans, in columns of several types or of pandas' own: pandas itself makes objects of them."""
    kinds = list(data.dtypes) if data.ndim == 2 else [data.dtype]
    kinds = [getattr(kind, "numpy_dtype", kind) for kind in kinds]
    is_plain = all(isinstance(kind, numpy.dtype) and kind.kind in "biuf" for kind in kinds)
    return numpy.result_type(*kinds) if kinds and is_plain else None


def at(data: Any, rows: Sequence[int]) -> Any:
    """The rows at these positions, in their order and the machine's byte order; a sparse matrix's as a full array."""
    rows = numpy.asarray(rows)
    if type(data).__module__.partition(".")[0] == "h5py":  # it takes positions that rise, each once
        wanted, places = numpy.unique(rows, return_inverse=True)
        found = data[wanted][places]
    else:
        found = data[rows]
    found = found.toarray() if hasattr(found, "toarray") else found
    return native(found)


def native(array: Any) -> Any:
    """The same in the machine's byte order: files may have another one, of which torch takes nothing."""
    if isinstance(array, numpy.ndarray) and not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array


def count(data: Any) -> int:
    """How many rows it has: len() of a sparse matrix raises."""
    return int(data.shape[0])
