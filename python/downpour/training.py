"""fit(), steps() and push(): trains a model of the user's own on parameter servers.

The same program runs in three ways. Started by `downpour run --module-name`, the tool runs it once to learn what the
model is, and each worker runs it to compute gradients. Started by itself, as `python -m trainer.task`, it trains in
this one process. docs/PYTHON.md has a walk.
"""

from __future__ import annotations

import contextlib
import gc
import operator
import sys
import types
from typing import Any, Callable, Iterator, Mapping, Optional

from downpour import modes
from downpour.arguments import OF_TORCH, refuse_others
from downpour.changes import Watch
from downpour.errors import MisuseError, TrainingError, kind_of
from downpour.job_settings import beaten_by, job_settings

_STEPPED = "the loop changed the parameters: leave optimizer.step() out, push is in its place"
_STEPPED_ANOTHER = (
    "the loop called the step() of another optimizer than the job's: put both models into one torch.nn.ModuleDict, "
    "push that once, and give optimizer= a list of both"
)
_FUNCTIONS = {
    "loss": "(output, target), such as torch.nn.functional.mse_loss",
    "step": "(model, batch)",
    "evaluate": "(model, batch)",
    "collate": "items",
    "keys": "a batch",
}
_MOST = {"epochs": 10**6, "batch_size": 1 << 20, "seed": 2**64 - 1, "validation_freq": 10**6}
_KEYS = {
    "epochs": "training.epochs",
    "batch_size": "training.batchSize",
    "seed": "seed",
    "validation_freq": "training.evaluateEveryEpochs",
}


def fit(
    model: Any,
    *,
    train: Any,
    eval: Any = None,  # noqa: A002 (as the job file has it)
    loss: Optional[Callable[[Any, Any], Any]] = None,
    step: Optional[Callable[[Any, Any], Any]] = None,
    metrics: Optional[Mapping[str, Callable[[Any, Any], Any]]] = None,
    optimizer: Any = None,
    epochs: Optional[int] = None,
    batch_size: Optional[int] = None,
    collate: Optional[Callable[[list], Any]] = None,
    keys: Optional[Callable[[Any], Any]] = None,
    seed: Optional[int] = None,
    job: Optional[Mapping[str, Any]] = None,
    **others: Any,
) -> tuple[Any, Any]:
    """Trains a torch.nn.Module, or a dict of float32 NumPy arrays; returns (model, history).

    In a job it returns in one process, once the job is trained: the model has the newest values then, or the best ones
    where training.stopEarly chose them. The program goes on there to its end, which is the job's. All other processes
    of the job end in here. docs/PYTHON.md says what may be repeated.

    train, eval: map-style datasets, or tuples or dicts of arrays with a row an example, which may be nested.
    loss: of a batch (*inputs, target) the mean loss is loss(model(*inputs), target).
    step: in place of `loss`, for batches of another kind. step(model, batch) returns the batch's mean loss, or
        (loss, output, target). Of a dict of arrays it returns (loss, gradients), or (loss, gradients, output, target),
        where gradients is a dict too.
    metrics: functions of (output, target), by name, each a batch's mean. They judge the evaluation.
    optimizer: one of torch.optim, a list of those of one kind, each with parameters of its own, a dict of the keys of
        training.optimizer, or None for the job file's.
    epochs, batch_size, seed: the job's, unless the job file or --set says otherwise.
    collate: makes a batch of a list of items; without it they are stacked.
    keys: keys(batch) returns the ids that the batch needs of each table, by its name. Then their rows are there before
        the model is called. Without it each layer waits for its rows when it is called.
    job: defaults for other keys of the job file, as {"training.consistency": "sync"}; the arguments above beat it.

    Raises TrainingError, with the remedy, for what parameter servers cannot train, and for other arguments.
    """
    refuse_others(fit, others, OF_TORCH)
    from downpour.examples import explaining_types

    _check_functions(loss=loss, step=step, collate=collate, keys=keys)
    adapter = _adapter_of(model, optimizer)
    is_torch = not isinstance(model, dict)
    compute = _step_of(model, loss, step)
    mode = current_mode()
    settings = arguments_as_settings(job, epochs=epochs, batch_size=batch_size, seed=seed)
    settings = beaten_by(_optimizer_settings(optimizer, adapter), settings)
    evaluate = lambda batch: compute(adapter.to_device(batch))  # noqa: E731
    run = _run(mode, train, eval, collate, is_torch, evaluate, metrics, settings, keys)
    if is_torch:
        model.train()

    def outcome_of(batch: Any) -> Any:
        outcome = compute(adapter.to_device(batch))
        adapter.backward(outcome)
        return outcome

    with adapter.unchanged():
        batch = run.train.batch(*run.probe())
        with explaining_types("train", batch):
            probe = outcome_of(batch)
        adapter.check_gradients(probe.gradients)
        if isinstance(mode, modes.Describe) and is_torch:
            run.takes_one = adapter.takes_one(lambda: compute(adapter.to_device(run.train.batch([0], 0))))
    run.begin(adapter, probe)
    watch = Watch()
    for batch in run.batches():
        watch.begin(adapter)
        outcome = outcome_of(batch)
        watch.check(adapter)
        run.pushed(outcome.loss, outcome.gradients)
    return model, mode.history


class steps:  # noqa: N801 (a call, as range is)
    """The batches of a loop of the user's own, each of which is to end in a push().

        for batch in downpour.steps(dataset, batch_size=64, epochs=3, optimizer=optimizer):
            loss = loss_of(model, batch)
            loss.backward()
            downpour.push(model, loss=loss)

    The first batch is a probe, by which the model becomes known: its gradients and random draws do not count. A model
    may give its parameters their first values by that batch. In a job the loop ends in one process, once the job is
    trained, as fit() returns in one. By itself it ends after the epochs. `history` says how they went.

    evaluate: evaluate(model, batch) of a batch of `eval` returns its mean loss, or (loss, output, target). All else is
    as for fit(). Calling zero_grad() changes nothing. optimizer.step() must not be called: push() is in its place.
    """

    def __init__(
        self,
        train: Any,
        *,
        eval: Any = None,  # noqa: A002
        evaluate: Optional[Callable[[Any, Any], Any]] = None,
        metrics: Optional[Mapping[str, Callable[[Any, Any], Any]]] = None,
        optimizer: Any = None,
        epochs: Optional[int] = None,
        batch_size: Optional[int] = None,
        collate: Optional[Callable[[list], Any]] = None,
        keys: Optional[Callable[[Any], Any]] = None,
        seed: Optional[int] = None,
        job: Optional[Mapping[str, Any]] = None,
        **others: Any,
    ) -> None:
        refuse_others(steps, others, OF_TORCH)
        if (eval is None) != (evaluate is None):
            raise TrainingError("eval= and evaluate=function(model, batch) belong together: give both or none")
        _check_functions(evaluate=evaluate, collate=collate, keys=keys)
        self._mode = current_mode()
        self._optimizer = optimizer
        self._evaluate = evaluate
        self._watch = Watch()  # of the parameters, which are to stay as they are up to the next batch
        self._is_pushed = False
        settings = arguments_as_settings(job, epochs=epochs, batch_size=batch_size, seed=seed)
        is_torch = "torch" in sys.modules
        self._run = _run(self._mode, train, eval, collate, is_torch, self._outcome, metrics, settings, keys)

    @property
    def history(self) -> Any:
        """As fit() returns it."""
        return self._mode.history

    def _outcome(self, batch: Any) -> Any:
        from downpour.training_run import Outcome

        module = self._run.model.module
        return Outcome.of(self._evaluate(module, batch), 1)

    def __iter__(self) -> Iterator[Any]:
        global _looping
        _looping = self
        try:
            with _refused_steps(self._optimizer):
                yield from self._batches()
        except GeneratorExit:
            self._mode.left(sys._getframe(1))
            raise
        finally:
            if _looping is self:
                _looping = None

    def _batches(self) -> Iterator[Any]:
        yield self._run.train.batch(*self._run.probe())
        if self._run.model is None:
            raise MisuseError("a batch came without a push of the one before: call downpour.push for each")
        self._watch.check(self._run.model)
        for batch in self._run.batches():
            self._watch.begin(self._run.model)
            self._is_pushed = False
            yield batch
            self._watch.check(self._run.model)

    def _push(self, model: Any, loss: Any, gradients: Any) -> None:
        if self._is_pushed:
            raise MisuseError("push was called twice for one batch: add the losses up, and push once")
        self._is_pushed = True
        if self._run.model is None:
            adapter = _adapter_of(model, self._optimizer)
            adapter.check_loss(loss)
            adapter.check_gradients(gradients)
            self._run.settings = beaten_by(_optimizer_settings(self._optimizer, adapter), self._run.settings)
            self._run.begin(adapter)
            self._watch.begin(adapter, is_probe=True)
            return
        adapter = self._run.model
        if model is not adapter.module:
            raise MisuseError("push was given another model than before: a loop trains one model")
        self._watch.check(adapter)
        self._run.pushed(loss, gradients)


_looping: Optional[steps] = None


def push(model: Any, *, loss: Any, gradients: Optional[Mapping[str, Any]] = None) -> None:
    """Hands the gradients of a batch of steps() to the parameter servers.

    loss: the batch's mean loss, of which loss.backward() was called.
    gradients: by name, if the model is a dict of arrays; those that are not there are zero.
    """
    if _looping is None:
        raise MisuseError("push belongs into a loop over downpour.steps: write one")
    _looping._push(model, loss, gradients)


@contextlib.contextmanager
def _refused_steps(optimizer: Any) -> Iterator[None]:
    """In here the step() of each optimizer of torch is refused where it is called: that of the job, and any other,
    whose model would be another one on each worker. In the first batch the parameters themselves would not tell a step
    from a model that initializes them by that batch."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return

    from downpour.optimizers import of_torch

    base, jobs = torch.optim.Optimizer, of_torch(optimizer)
    kinds = list(_with_subclasses(base))
    own = {kind: vars(kind)["step"] for kind in kinds if "step" in vars(kind)}

    def step(self: Any, *given: Any, **named: Any) -> Any:
        tensors = (tensor for group in self.param_groups for tensor in group["params"])
        is_jobs = any(self is one for one in jobs)
        if not is_jobs and not any(isinstance(tensor, torch.nn.Parameter) for tensor in tensors):
            # Of what the batch alone has, such as a disturbed input: no model's.
            return next(own[kind] for kind in type(self).__mro__ if kind in own)(self, *given, **named)
        raise MisuseError(_STEPPED if is_jobs or optimizer is None else _STEPPED_ANOTHER)

    # A scheduler puts a step of its own into its optimizer, which calls that of the class as it was before.
    made = [found for found in gc.get_objects() if issubclass(type(found), base) and "step" in vars(found)]
    with contextlib.ExitStack() as restored:
        for kind in kinds:
            restored.callback(setattr if kind in own else _forget, kind, "step", *([own[kind]] if kind in own else []))
        for kind in own:
            kind.step = step
        for one in jobs:
            if "step" not in vars(one):
                restored.callback(_forget, one, "step")
        for one in made:
            restored.callback(setattr, one, "step", vars(one)["step"])
            one.step = types.MethodType(step, one)  # a method, as a scheduler of torch takes it for
        yield


def _forget(owner: Any, name: str) -> None:
    """What torch has put there meanwhile: it wraps the step that it finds, in a class or below a scheduler."""
    if name in vars(owner):
        delattr(owner, name)


def _with_subclasses(kind: type) -> Iterator[type]:
    yield kind
    for below in kind.__subclasses__():
        yield from _with_subclasses(below)


def _check_functions(**given: Any) -> None:
    for name, function in given.items():
        if function is not None and not callable(function):
            raise TrainingError(f"{name} is {function!r}, but must be a function of {_FUNCTIONS[name]}")


def is_master() -> bool:
    """Whether this process is the one that is to go on behind fit(): the first worker, or the only process.

    It tells before fit() what only one process should do, such as to make a folder. Should that worker's host be lost,
    another process goes on behind fit(), where this is true from then on.
    """
    return current_mode().is_master


def current_mode() -> Any:
    if modes.current is not None:
        return modes.current
    from downpour.local import Local

    return Local()


def _adapter_of(model: Any, optimizer: Any) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from downpour.torch_model import TorchModel

        return TorchModel(model, optimizer)
    if isinstance(model, dict):
        from downpour.array_model import ArrayModel

        return ArrayModel(model)
    raise TrainingError(f"the model is {kind_of(model)}: give a torch.nn.Module, or a dict of float32 arrays")


def _step_of(model: Any, loss: Any, step: Any) -> Callable[[Any], Any]:
    if not isinstance(model, dict):
        from downpour.torch_model import step_of

        return step_of(model, loss, step)
    from downpour.training_run import Outcome

    if step is None or loss is not None:
        raise TrainingError("for a dict of arrays give step=function(values, batch), which returns (loss, gradients)")
    return lambda batch: Outcome.of(step(model, batch), 2)


def _run(
    mode: Any,
    train: Any,
    evaluation: Any,
    collate: Any,
    tensors: bool,
    evaluate: Any,
    metrics: Any,
    settings: dict,
    keys: Any,
) -> Any:
    from downpour.examples import Examples
    from downpour.training_run import Run

    data = Examples(train, collate, tensors, "train")
    judged = None if evaluation is None else Examples(evaluation, collate, tensors, "eval")
    return Run(mode, data, judged, evaluate, metrics, settings, keys)


def arguments_as_settings(job: Optional[Mapping[str, Any]], **arguments: Optional[int]) -> dict[str, Any]:
    settings, defaults = {}, job_settings(job)
    for name, value in arguments.items():
        value = defaults.get(_KEYS[name]) if value is None else value
        if value is None:
            continue
        least = 0 if name == "seed" else 1
        if not isinstance(value, bool):
            with contextlib.suppress(TypeError):
                value = operator.index(value)  # NumPy's too
        if type(value) is not int or not least <= value <= _MOST[name]:
            raise TrainingError(f"{name} is {value!r}, but must be a whole number of {least} to {_MOST[name]}")
        settings[_KEYS[name]] = value
    return beaten_by(settings, defaults)


def _optimizer_settings(optimizer: Any, adapter: Any) -> dict[str, Any]:
    from downpour.optimizers import completed, from_torch, of_torch

    if optimizer is None:
        return {}
    if isinstance(optimizer, Mapping):
        completed(optimizer)
        return {"training.optimizer": dict(optimizer)}
    optimizers = of_torch(optimizer)
    if not optimizers or not hasattr(adapter, "names"):
        raise TrainingError(
            f"optimizer is {kind_of(optimizer)}: give one of torch.optim with the model's parameters, a list of them, "
            "or a dict of keys of training.optimizer"
        )
    return {"training.optimizer": from_torch(optimizers, adapter.names)}
