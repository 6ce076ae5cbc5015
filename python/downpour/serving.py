"""serve(), and Serve: answers predictions by the user's model, with the values of a checkpoint."""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Optional, Sequence

from downpour import modes
from downpour.errors import InstanceError, TrainingError

if TYPE_CHECKING:
    from downpour.training_run import Run
    from downpour.shared_rows import SharedRows
    from downpour.variables import Memory

_MOST_ANSWER = modes.MOST_MESSAGE_BYTES // 2  # bytes


def serve(model: Any, predict: Optional[Callable[[list], Any]] = None, *, example: Any = None) -> None:
    """Answers predictions by this model, in a process that was started for that. Elsewhere it does nothing.

        model = Network()
        downpour.serve(model)             # what stands below is for training
        train = load(arguments.data)
        downpour.fit(model, train=train, ...)

    A program that never calls it answers where it comes to fit(), keras.fit() or its first push(), so with its data
    loaded. The parameters are those of a checkpoint then, and a torch.nn.Module is in eval mode.

    predict: predict(instances) gets a list of instances as JSON has them, and returns a prediction for each: a list, an
        array or tensor with a row for each, or a dict of these. What json takes may be in it, and arrays. Without it
        each instance is one input: a number, or lists of them; or a dict of inputs by their names in forward().
    example: an instance that is answered before a version takes over, so that one that cannot answer is not put to use.
        Its numbers show which inputs are whole, as 1, and which are not, as 1.0. Without it whole numbers are such only
        for a model that looks things up by them, as in an Embedding.
    """
    if predict is not None and not callable(predict):
        raise TrainingError(f"predict is {predict!r}, but must be a function of a list of instances")
    mode = modes.current
    if not isinstance(mode, Serve):
        return
    mode.offer(_adapter_of(model), predict, example)


def _adapter_of(model: Any) -> Any:
    from downpour import training

    keras = sys.modules.get("keras")
    if keras is not None and isinstance(model, keras.Model):
        from downpour.keras import KerasModel

        return KerasModel(model)
    return training._adapter_of(model, None)


class Serve(modes.Work):
    """Answers what a process that serves predictions asks. Its messages are those of a worker, and these:

        {"predict": {"instances": [...]}}  ->  {"predicted": {"predictions": [...]}}
                                               {"predicted": {"failed": {"message", "where", "isOfRequest"}}}
        {"warmUp": {}}                     ->  likewise, of the example, or of no instances

    In place of {"rows": {}} they are told {"rows": {"refused": true}} where instances need too many rows of tables.
    """

    is_master = False

    def begin(self, run: Run) -> Memory:
        """The program has come to its model, and trains nothing."""
        self.offer(run.model, None, None, run.train.batch([0], 0))

    def offer(
        self, model: Any, predict: Optional[Callable[[list], Any]], example: Any, batch: Any = None
    ) -> NoReturn:
        """Answers until this process ends. `batch`: one of training, which has the types of the inputs."""
        from downpour.instances import types_of, usual
        from downpour.tables import Rows

        self._model = model
        self._predict = predict or usual(model.module, types_of(model.module, batch, example))
        self._example = example
        self._rows: Optional[Rows] = None
        model.bind(self._shared(model.variables))
        if model.readers.tables:
            self._rows = Rows(model.readers.tables, self._row_source(model.readers.tables))
            model.readers.bind(self._rows)
        model.load()
        self._answers = "predicted"
        self._answer({"ready": self._description()})
        self.has_begun = True
        while True:
            request = self._heard()
            self._called = time.monotonic()
            if "predict" in request:
                text = self._answer_to(request["predict"]["instances"])
            elif "warmUp" in request:
                text = self._answer_to([] if self._example is None else [self._example])
            else:
                what = ", ".join(request) or "nothing"
                raise TrainingError(f"this program is asked for {what}: install the package of the tool's version")
            self._returned()
            self.send(text)

    def _shared(self, variables: Sequence[Any]) -> Memory:
        """The values of the checkpoint. What the program writes there is its own: other processes see the same file."""
        from downpour.variables import Memory

        size = os.fstat(self._memory).st_size
        flags, access = mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE
        return Memory(variables, mmap.mmap(self._memory, size, flags=flags, prot=access))

    def _row_source(self, tables: Sequence[Any]) -> SharedRows:
        from downpour.shared_rows import SharedRows

        if self._row_memory is None:
            raise TrainingError("there is no memory for rows of tables: install the package of the tool's version")
        size = os.fstat(self._row_memory).st_size
        return SharedRows(mmap.mmap(self._row_memory, size), tables, self._need, lambda *_: _too_many_rows())

    def _need(self, asked: list[list[int]]) -> dict:
        told = super()._need(asked)
        if "refused" in told:
            raise _too_many_rows()
        return told

    def _description(self) -> dict[str, Any]:
        from downpour import __version__

        return {
            "version": __version__,
            "variables": [variable.to_json() for variable in self._model.variables],
            "tables": [table.to_json() for table in self._model.readers.tables],
        }

    def _returned(self) -> None:
        self._called, self._warned = None, 0.0  # and no call gives the next one more time

    def _answer_to(self, instances: list) -> str:
        """The message. An exception of the user's code is an answer: the process goes on."""
        from downpour.instances import not_finite_in

        predictions: list = []
        try:
            if instances:
                predictions = self._predictions_of(instances)
            text = json.dumps({"predicted": {"predictions": predictions}}, allow_nan=False, ensure_ascii=False)
            if len(text.encode()) > _MOST_ANSWER:  # which raises for a text that has no UTF-8
                raise InstanceError(
                    f"the predictions have {len(text)} bytes, and an answer at most {_MOST_ANSWER}: send fewer rows"
                )
            return text
        except Exception as error:  # noqa: BLE001 (whatever the user's code raises)
            return json.dumps({"predicted": {"failed": _told(not_finite_in(predictions) or error)}})

    def _predictions_of(self, instances: list) -> list:
        from downpour.instances import rows_of

        if self._rows is not None:
            self._rows.begin()
        with self._model.evaluating():
            return rows_of(self._predict(instances), len(instances))


def _too_many_rows() -> InstanceError:
    return InstanceError("the instances need more rows of tables than one answer may read: send fewer rows")


def _told(error: Exception) -> dict[str, Any]:
    is_of_request = isinstance(error, InstanceError)
    if not is_of_request:
        traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
    message = _words_of(error)
    if not isinstance(error, (TrainingError, InstanceError)):
        message = f"{type(error).__name__}: {message}"
    own = modes.own_of(traceback.extract_tb(error.__traceback__))
    where = f"{modes.places(own)[0]}" if own and not is_of_request else ""
    return {"message": " ".join(message.split()), "where": where, "isOfRequest": is_of_request}


def _words_of(error: Exception) -> str:
    """Text that has UTF-8, of whatever class of the user's it is."""
    try:
        return f"{error}".encode(errors="replace").decode()
    except Exception:  # noqa: BLE001 (its __str__ is the user's code too)
        return "it has no text"
