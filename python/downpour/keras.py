"""fit() for a compiled Keras 3 model, on the backends TensorFlow and torch.

    import downpour.keras
    model.compile(optimizer="sgd", loss="mean_squared_error")
    downpour.keras.fit(model, x, y, epochs=3)
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Mapping, Optional

import keras
import numpy

from downpour import training
from downpour.arguments import refuse_others_of_keras
from downpour.errors import TrainingError
from downpour.examples import map_arrays
from downpour.job_settings import beaten_by
from downpour.keras_callbacks import settings_of_callbacks
from downpour.keras_data import columns, examples, has_weights, parts_of, weighted
from downpour.keras_metrics import compiled, directions
from downpour.keras_optimizers import settings_of
from downpour.keras_tables import Embedding as Embedding
from downpour.keras_tables import add_gradients, layers_of
from downpour.local import Local
from downpour.metrics import Metric
from downpour.optimizers import completed
from downpour.own_metrics import ACCURACY
from downpour.training_run import Outcome, Run, classes_of
from downpour.table_reader import Readers
from downpour.tables import Rows
from downpour.variables import Memory, Variable, check


def fit(
    model: keras.Model,
    x: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    class_weight: Optional[Mapping[int, float]] = None,
    validation_data: Optional[tuple] = None,
    validation_split: float = 0.0,
    validation_freq: int = 1,
    callbacks: Any = None,
    optimizer: Optional[Mapping[str, Any]] = None,
    epochs: Optional[int] = None,
    batch_size: Optional[int] = None,
    keys: Optional[Callable[[Any], Any]] = None,
    seed: Optional[int] = None,
    verbose: Any = "auto",
    job: Optional[Mapping[str, Any]] = None,
    **others: Any,
) -> tuple[keras.Model, Any]:
    """Trains it on parameter servers, as downpour.fit does, and returns (model, history).

    x, y: arrays with a row an example, or dicts, lists or tuples of them, as model.fit takes them.
    sample_weight: by which an example's loss is multiplied: an array, or one for each output.
    class_weight: in its place, a dict of what the loss of each class is multiplied by.
    validation_data: (x, y) or (x, y, sample_weight).
    validation_split: in its place, the share of the last rows, which are not trained on.
    validation_freq: epochs from one evaluation to the next.
    callbacks: those for early stopping, checkpoints and learning rates, as keys of the job file. None is called.
    optimizer: keys of training.optimizer, in place of the optimizer that the model was compiled with.
    keys: keys(batch) of a batch (x, y) returns the ids that it needs of each table, as of downpour.fit.
    verbose: 0 prints no line for each epoch where it trains by itself.
    job: as of downpour.fit.

    Metrics that the model was compiled with judge the evaluation: means over examples, AUC, Precision, Recall and
    RootMeanSquaredError. Raises TrainingError, also for other arguments of model.fit, with the remedy.
    """
    refuse_others_of_keras(fit, others)
    adapter = KerasModel(model)
    mode = training.current_mode()
    if isinstance(mode, Local):
        mode.prints = bool(verbose)
    every = None if validation_freq == 1 else validation_freq
    settings = training.arguments_as_settings(
        job, epochs=epochs, batch_size=batch_size, seed=seed, validation_freq=every
    )
    if optimizer is not None:
        completed(optimizer)
    own = settings_of(model.optimizer) if optimizer is None else dict(optimizer)
    settings = beaten_by({"training.optimizer": own}, settings)
    train, judged = parts_of(columns(x, y, sample_weight), validation_data, validation_split)
    train = weighted(train, class_weight)
    data = examples(train, "x")
    evaluation = None if judged is None else examples(judged, "validation_data")
    probe = data.batch(range(min(data.count, 8)), 0)
    metrics = adapter.metrics(probe, is_weighted=has_weights(train) or has_weights(judged))
    with adapter.unchanged():
        outcome = adapter.compute(probe)
        adapter.check_loss(outcome.loss)
        adapter.check_gradients(outcome.gradients)
    has_accuracy = ACCURACY in metrics or classes_of(outcome) > 0
    comparable = {"loss": "min", **({ACCURACY: "max"} if has_accuracy else {}), **directions(metrics)}
    own = settings_of_callbacks(callbacks, settings, data.count, comparable if evaluation else {})
    settings = beaten_by(own, settings)
    run = Run(mode, data, evaluation, adapter.evaluate, metrics, settings, keys)
    run.begin(adapter, outcome)
    for batch in run.batches():
        outcome = adapter.compute(batch)
        run.pushed(outcome.loss, outcome.gradients)
    return model, mode.history


def load_values(model: keras.Model, values: Mapping[str, numpy.ndarray]) -> None:
    """Gives a model the values that a job has trained, by the paths of its variables.

    A model that is made again may have other paths, such as dense_2/kernel for dense/kernel: then they are given in the
    model's order, if all shapes agree. Raises ValueError where they do not, with nothing changed.
    """
    kept = [v for v in model.variables if "float" in keras.backend.standardize_dtype(v.dtype)]
    by_path = {variable.path: variable for variable in kept}
    pairs = list(zip(kept, values.values()))
    if by_path.keys() == values.keys():
        pairs = [(by_path[path], value) for path, value in values.items()]
    if len(kept) != len(values) or any(tuple(variable.shape) != value.shape for variable, value in pairs):
        has = ", ".join(f"{variable.path} {list(variable.shape)}" for variable in kept)
        trained = ", ".join(f"{path} {list(value.shape)}" for path, value in values.items())
        raise ValueError(f"the model has {has}, but the job trained {trained}: make it as the job's program does")
    for variable, value in pairs:
        variable.assign(value)


class KerasModel:
    """The variables are the model's float32 ones, by their paths. All are copied from and to the memory.

    The states of random generators are not variables: each batch sets them by what the plan has seeded NumPy with.
    """

    def __init__(self, model: keras.Model) -> None:
        if not getattr(model, "compiled", False) or not model.built:
            raise TrainingError("the model is not built or not compiled: give it an Input and call model.compile()")
        if type(model).train_step is not keras.Model.train_step:
            raise TrainingError("the model has a train_step of its own, which workers do not call: use compute_loss")
        if getattr(model.optimizer, "inner_optimizer", None) is not None:
            raise TrainingError("the model is compiled for mixed precision: parameter servers keep float32")
        self.module = model
        trained = {id(variable) for variable in model.trainable_variables}
        self._kept = [v for v in model.variables if "float" in keras.backend.standardize_dtype(v.dtype)]
        self._generators = [v for v in model.variables if v.path.endswith("seed_generator_state")]
        for variable in self._kept:
            if keras.backend.standardize_dtype(variable.dtype) != "float32":
                raise TrainingError(f"{variable.path} is of {variable.dtype}, but parameter servers keep float32")
        self.variables = [Variable(v.path, tuple(v.shape), id(v) in trained) for v in self._kept]
        self._tables = dict(layers_of(model))
        self.readers = Readers((name, layer.reader) for name, layer in self._tables.items())
        check(self.variables)
        self._trained = [v for v in self._kept if id(v) in trained]
        self._forward_and_back = _BACKENDS.get(keras.backend.backend(), _refuse_backend)(model, self._trained)

    @property
    def arithmetic(self) -> str:
        return f"keras {keras.__version__} on {keras.backend.backend()}"

    def values(self) -> dict[str, numpy.ndarray]:
        """Copies of what the variables are now."""
        return {v.path: numpy.array(keras.ops.convert_to_numpy(v), order="C") for v in self._kept}

    only_reads = True  # it copies them

    def release(self) -> None:
        """The variables are the model's own."""
        self.readers.release(self._rows is not None and self._rows.is_local)

    def bind(self, memory: Memory, rows: Optional[Rows] = None) -> None:
        """From now on the memory has the parameters and is given the gradients, and `rows` likewise."""
        self._memory = memory
        self._rows = rows
        self.readers.bind(rows)

    def load(self) -> None:
        """Copies all from the memory."""
        for kept, values in zip(self._kept, self._memory.parameters):
            kept.assign(values)

    def clear(self) -> None:
        """Takes away what a batch before had for rows. Of variables collect() writes all gradients."""
        for layer in self._tables.values():
            layer.gathered.gradients.clear()

    def collect_rows(self, share: float) -> None:
        """Adds what the batch has for rows, which counts so much in the step."""
        for layer in self._tables.values():
            add_gradients(self._rows, layer.gathered, share)

    def collect(self, gradients: Mapping[str, Any]) -> None:
        """Writes the gradients of a step; an unused variable's is zero."""
        for variable, place in zip(self.variables, self._memory.gradients):
            if variable.trainable:
                found = gradients[variable.name]
                place[...] = 0 if found is None else found

    def finish(self) -> None:
        """Writes what this step has changed all else by."""
        memory = self._memory
        for variable, kept, values, place in zip(self.variables, self._kept, memory.parameters, memory.gradients):
            if not variable.trainable:
                numpy.subtract(values, keras.ops.convert_to_numpy(kept), out=place)

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """What changes statistics in here leaves no trace."""
        values = self.values()
        yield
        for kept in self._kept:
            kept.assign(values[kept.path])

    def compute(self, batch: Any) -> Outcome:
        """A training step's loss and gradients."""
        for state in self._generators:
            state.assign(numpy.random.randint(1 << 31, size=2).astype(keras.backend.standardize_dtype(state.dtype)))
        x, y, weight = _parts(batch)
        with self._failing():
            loss, output, found = self._forward_and_back(x, y, weight)
        return Outcome(loss, output, _labels(y), dict(zip((v.path for v in self._trained), found)))

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """What a layer raises in here is raised as it is, and not as TensorFlow makes it."""
        try:
            yield
        except Exception:
            for layer in self._tables.values():
                failure, layer.gathered.failure = layer.gathered.failure, None
                if failure is not None:
                    raise failure from None
            raise

    def evaluate(self, batch: Any) -> Outcome:
        """The outcome of a batch that is not trained. `said` is what the metrics say of it."""
        x, y, weight = _parts(batch)
        self.module.reset_metrics()
        with _no_gradients(), self._failing():
            output = self.module(x, training=False)
            loss = self.module.compute_loss(x=x, y=y, y_pred=output, sample_weight=weight, training=False)
            said = self.module.compute_metrics(x, y, output, sample_weight=weight)
        self._said = {name: _number(name, value) for name, value in said.items() if name != "loss"}
        return Outcome(_array(loss), map_arrays(_array, output), _labels(y))

    def metrics(self, batch: Any, is_weighted: bool) -> dict[str, Metric]:
        """Those that the model was compiled with, by name. A classification's accuracy is the job's own."""
        outcome = self.evaluate(batch)
        if is_weighted and any(getattr(group, "_user_weighted_metrics", None) for group in self.module.metrics):
            raise TrainingError("weighted_metrics are no means over examples: compile with metrics= alone")
        return compiled(self.module, lambda: self._said, classes_of(outcome) > 0)

    def check_loss(self, loss: Any) -> None:
        """Raises TrainingError if it is no number."""
        if numpy.size(loss) != 1:
            raise TrainingError(f"the loss has the shape {list(numpy.shape(loss))}: compile one that is a batch's mean")

    def check_gradients(self, gradients: Mapping[str, Any]) -> None:
        """Raises TrainingError if there are none."""
        if all(gradient is None for gradient in gradients.values()):
            raise TrainingError("no variable has a gradient: compute the loss from the model's output")


def _tensorflow(model: keras.Model, trained: list) -> Callable:
    import tensorflow

    places = [variable.value for variable in trained]

    @tensorflow.function(reduce_retracing=True)
    def traced(x: Any, y: Any, weight: Any) -> Any:
        with tensorflow.GradientTape() as tape:
            output = model(x, training=True)
            loss = model.compute_loss(x=x, y=y, y_pred=output, sample_weight=weight, training=True)
        found = tape.gradient(loss, places)
        return loss, output, [None if g is None else tensorflow.convert_to_tensor(g) for g in found]

    def forward_and_back(*parts: Any) -> Any:
        tensors = [None if part is None else map_arrays(tensorflow.constant, part) for part in parts]
        loss, output, found = traced(*tensors)
        return _array(loss), map_arrays(_array, output), [None if g is None else g.numpy() for g in found]

    return forward_and_back


def _torch(model: keras.Model, trained: list) -> Callable:
    def forward_and_back(x: Any, y: Any, weight: Any) -> Any:
        model.zero_grad()
        output = model(x, training=True)
        loss = model.compute_loss(x=x, y=y, y_pred=output, sample_weight=weight, training=True)
        loss.backward()
        found = [variable.value.grad for variable in trained]
        return _array(loss), map_arrays(_array, output), [None if g is None else _array(g) for g in found]

    return forward_and_back


_BACKENDS = {"tensorflow": _tensorflow, "torch": _torch}


def _refuse_backend(model: keras.Model, trained: list) -> Callable:
    raise TrainingError(f"Keras runs on {keras.backend.backend()}: set KERAS_BACKEND to tensorflow or torch")


def _no_gradients() -> Any:
    if keras.backend.backend() != "torch":
        return contextlib.nullcontext()
    import torch

    return torch.no_grad()


def _array(tensor: Any) -> numpy.ndarray:
    return numpy.asarray(keras.ops.convert_to_numpy(tensor))


def _parts(batch: tuple) -> tuple[Any, Any, Any]:
    """(x, y, sample_weight); None of what it has not."""
    return (*batch, None, None)[:3]


def _number(name: str, value: Any) -> float:
    array = _array(value)
    if array.size != 1:
        raise TrainingError(
            f"the metric {name} is {array.size} numbers: give it one threshold, or leave it out of compile()"
        )
    return float(array.reshape(()))


def _labels(y: Any) -> Any:
    """Of whole numbers [N, 1], which Keras takes for [N]; else as it is. Of several outputs: none."""
    if not isinstance(y, numpy.ndarray):
        return None
    return y[:, 0] if y.dtype.kind in "iu" and y.ndim == 2 and y.shape[1] == 1 else y
