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
from downpour.errors import TrainingError
from downpour.examples import Examples
from downpour.keras_optimizers import settings_of
from downpour.optimizers import completed
from downpour.run import Outcome, Run, classes_of
from downpour.variables import Memory, Variable, check


def fit(
    model: keras.Model,
    x: Any,
    y: Any,
    *,
    validation_data: Optional[tuple[Any, Any]] = None,
    optimizer: Optional[Mapping[str, Any]] = None,
    epochs: Optional[int] = None,
    batch_size: Optional[int] = None,
    seed: Optional[int] = None,
) -> tuple[keras.Model, Any]:
    """Trains it on parameter servers, as downpour.fit does, and returns (model, history).

    x, y: arrays with a row an example; so is what `validation_data`, a pair, has.
    optimizer: keys of training.optimizer, in place of the optimizer that the model was compiled with.

    Metrics that the model was compiled with judge the evaluation: means over examples alone. Raises TrainingError.
    """
    adapter = KerasModel(model)
    mode = training.current_mode()
    settings = training.arguments_as_settings(epochs=epochs, batch_size=batch_size, seed=seed)
    if optimizer is not None:
        completed(optimizer)
    settings["training.optimizer"] = settings_of(model.optimizer) if optimizer is None else dict(optimizer)
    data = Examples(columns(x, y), None, False, "x")
    judged = None
    if validation_data is not None:
        judged = Examples(columns(*validation_data), None, False, "validation_data")
    probe = data.batch(range(min(data.count, 8)), 0)
    with adapter.unchanged():
        outcome = adapter.compute(probe)
        adapter.check_loss(outcome.loss)
        adapter.check_gradients(outcome.gradients)
    metrics = adapter.metrics(probe, outcome)
    run = Run(mode, data, judged, adapter.evaluate, metrics, settings)
    run.begin(adapter, outcome)
    for batch in run.batches():
        outcome = adapter.compute(batch)
        run.pushed(outcome.loss, outcome.gradients)
    return model, mode.history


def columns(x: Any, y: Any) -> tuple:
    """As NumPy's arrays."""
    return tuple(numpy.asarray(keras.ops.convert_to_numpy(column)) for column in (x, y))


class KerasModel:
    """The variables are the model's float32 ones, by their paths. All are copied from and to the memory.

    The states of random generators are not variables: each batch sets them by what the plan has seeded NumPy with.
    """

    def __init__(self, model: keras.Model) -> None:
        if not getattr(model, "compiled", False) or not model.built:
            raise TrainingError("the model is not built or not compiled: give it an Input and call model.compile()")
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
        check(self.variables)
        self._trained = [v for v in self._kept if id(v) in trained]
        self._forward_and_back = _BACKENDS.get(keras.backend.backend(), _refuse_backend)(model, self._trained)

    @property
    def arithmetic(self) -> str:
        return f"keras {keras.__version__} on {keras.backend.backend()}"

    def values(self) -> dict[str, numpy.ndarray]:
        """Copies of what the variables are now."""
        return {v.path: numpy.array(keras.ops.convert_to_numpy(v), order="C") for v in self._kept}

    def bind(self, memory: Memory) -> None:
        """From now on the memory has the parameters and is given the gradients."""
        self._memory = memory

    def load(self) -> None:
        """Copies all from the memory."""
        for kept, values in zip(self._kept, self._memory.parameters):
            kept.assign(values)

    def clear(self) -> None:
        """Nothing: collect() writes all gradients."""

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
        loss, output, found = self._forward_and_back(*batch)
        gradients = {v.path: None if g is None else g for v, g in zip(self._trained, found)}
        return Outcome(loss, output, _labels(batch[1]), gradients)

    def evaluate(self, batch: Any) -> Outcome:
        """The outcome of a batch that is not trained."""
        x, y = batch
        with _no_gradients():
            output = self.module(x, training=False)
            loss = self.module.compute_loss(x=x, y=y, y_pred=output, training=False)
        return Outcome(_array(loss), _array(output), _labels(y))

    def metrics(self, batch: Any, outcome: Outcome) -> dict[str, Callable]:
        """Those that the model was compiled with, by name. A classification's accuracy is the job's own."""
        model, (x, y) = self.module, batch

        def results(output: Any, target: Any) -> dict[str, Any]:
            model.reset_metrics()
            with _no_gradients():
                said = model.compute_metrics(x, target, keras.ops.convert_to_tensor(output))
            return {name: float(_array(value)) for name, value in said.items() if name != "loss"}

        names = list(results(outcome.output, y))
        for group in model.metrics:
            for metric in getattr(group, "metrics", ()):
                if type(metric).result is not keras.metrics.Mean.result:
                    raise TrainingError(
                        f"the metric {metric.name} is no mean over examples, so workers cannot add up their parts: "
                        "leave it out of compile()"
                    )
        if classes_of(outcome):
            names = [name for name in names if name != "accuracy"]
        ours = {name: "mean_accuracy" if name == "accuracy" else name for name in names}
        return {ours[name]: lambda output, target, name=name: results(output, target)[name] for name in names}

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
    def traced(x: Any, y: Any) -> Any:
        with tensorflow.GradientTape() as tape:
            output = model(x, training=True)
            loss = model.compute_loss(x=x, y=y, y_pred=output, training=True)
        found = tape.gradient(loss, places)
        return loss, output, [None if g is None else tensorflow.convert_to_tensor(g) for g in found]

    def forward_and_back(x: Any, y: Any) -> Any:
        loss, output, found = traced(tensorflow.constant(x), tensorflow.constant(y))
        return _array(loss), _array(output), [None if g is None else g.numpy() for g in found]

    return forward_and_back


def _torch(model: keras.Model, trained: list) -> Callable:
    def forward_and_back(x: Any, y: Any) -> Any:
        model.zero_grad()
        output = model(x, training=True)
        loss = model.compute_loss(x=x, y=y, y_pred=output, training=True)
        loss.backward()
        found = [variable.value.grad for variable in trained]
        return _array(loss), _array(output), [None if g is None else _array(g) for g in found]

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


def _labels(y: Any) -> Any:
    """Of whole numbers [N, 1], which Keras takes for [N]; else as it is."""
    return y[:, 0] if y.dtype.kind in "iu" and y.ndim == 2 and y.shape[1] == 1 else y
