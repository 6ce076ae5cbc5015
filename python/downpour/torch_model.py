"""TorchModel: a torch.nn.Module whose parameters lie in a Memory, which gets their gradients."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional

import numpy
import torch

from downpour.errors import TrainingError, kind_of
from downpour.optimizers import of_torch
from downpour.table_layers import readers_of
from downpour.table_reader import Readers
from downpour.training_run import Outcome
from downpour.variables import Memory, Variable, check

if TYPE_CHECKING:
    from downpour.tables import Rows

_EMBEDDINGS = torch.nn.Embedding, torch.nn.EmbeddingBag
_LARGE_MIB = 64  # of an embedding that travels as a whole


class TorchModel:
    """The variables are the module's parameters, in their order, and then its float buffers.

    Parameters that are trained, on the CPU, are views of the memory. All else is copied: gradients, what is on a GPU,
    buffers, and frozen parameters. Frozen are those without requires_grad, and those that a torch
    optimizer was not given. Buffers of whole numbers are not variables.
    """

    def __init__(self, module: torch.nn.Module, optimizer: Optional[Any] = None) -> None:
        self.module = module
        self.names = {id(parameter): name for name, parameter in module.named_parameters()}
        chosen = None
        if optimizers := of_torch(optimizer):
            groups = [group for one in optimizers for group in one.param_groups]
            chosen = {id(parameter) for group in groups for parameter in group["params"]}
            if strangers := len(chosen - set(self.names)):
                raise TrainingError(f"optimizer has {strangers} parameters that the model has not: give it the model's")
        self.parameters: dict[str, torch.nn.Parameter] = {}  # that are trained
        self.left_out: dict[str, torch.nn.Parameter] = {}  # that could be, but are not the optimizer's
        self._holders: dict[str, tuple[dict, str]] = {}  # of all but those trained: where the module has it now
        self.variables: list[Variable] = []
        for name, part, key in _each(module, "_parameters"):
            parameter = part._parameters[key]
            self._check(name, parameter)
            is_trained = parameter.requires_grad and (chosen is None or id(parameter) in chosen)
            if is_trained and isinstance(part, _EMBEDDINGS) and part.max_norm is not None:
                raise TrainingError(
                    f"{name} is changed in forward by max_norm, but the servers alone change parameters: "
                    "leave max_norm out, or scale what the layer returns"
                )
            if is_trained and isinstance(part, _EMBEDDINGS):
                _tell_of_tables(name, part)
            self.variables.append(Variable(name, tuple(parameter.shape), is_trained))
            if is_trained:
                self.parameters[name] = parameter
            else:
                self._holders[name] = part._parameters, key
                if parameter.requires_grad:
                    self.left_out[name] = parameter
        for name, part, key in _each(module, "_buffers"):
            buffer = part._buffers[key]
            is_number = buffer.is_floating_point() or buffer.is_complex()
            if is_number and key not in part._non_persistent_buffers_set:
                self._check(name, buffer)
                self.variables.append(Variable(name, tuple(buffer.shape), False))
                self._holders[name] = part._buffers, key
        self.readers = Readers(readers_of(module))  # of tables
        check(self.variables, bool(self.readers.tables))
        self._check_apart()

    def _check(self, name: str, tensor: torch.Tensor) -> None:
        if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            raise TrainingError(f"{name} has no shape yet: run one batch through the model before")
        if tensor.dtype != torch.float32:
            raise TrainingError(f"{name} is of {tensor.dtype}, but parameter servers keep float32: call model.float()")

    def _check_apart(self) -> None:
        places: dict[int, str] = {}
        for name, parameter in self.parameters.items():
            first = places.setdefault(parameter.data_ptr(), name)
            if first is not name:
                raise TrainingError(
                    f"{first} and {name} are two parameters in one place of memory: "
                    "tie weights by assigning the parameter itself, not its data"
                )

    @property
    def device(self) -> torch.device:
        return next(iter(self.parameters.values())).device

    @property
    def arithmetic(self) -> str:
        threads = torch.get_num_threads()
        return f"torch {torch.__version__} on {self.device}, {threads} thread{'s' if threads > 1 else ''}"

    def values(self) -> dict[str, numpy.ndarray]:
        """Copies of what the variables are now."""
        return {v.name: self._tensor(v).detach().cpu().contiguous().numpy().copy() for v in self.variables}

    def _tensor(self, variable: Variable) -> torch.Tensor:
        if variable.trainable:
            return self.parameters[variable.name]
        holder, key = self._holders[variable.name]
        return holder[key]

    only_reads = False  # what writes them is found by autograd's counters, and writing memory mapped so would crash

    def release(self) -> None:
        """Parameters stay views of the memory, which is the process's to the end."""
        self.readers.release(self._rows is not None and self._rows.is_local)

    def bind(self, memory: Memory, rows: Optional[Rows] = None) -> None:
        """From now on the memory has the parameters and is given the gradients, and `rows` likewise."""
        self._memory = memory
        self._rows = rows
        self.readers.bind(rows)
        self._values = [torch.from_numpy(values) for values in memory.parameters]
        self._gradients = [[torch.from_numpy(gradient) for gradient in one] for one in memory.sets]
        self._copied = []  # variables that are no view of the memory
        for variable, values in zip(self.variables, self._values):
            if variable.trainable and self._is_shared(self.parameters[variable.name]):
                self.parameters[variable.name].data = values
            else:
                self._copied.append((variable, values))

    def _is_shared(self, parameter: torch.nn.Parameter) -> bool:
        return parameter.device.type == "cpu"

    @torch.no_grad()
    def load(self) -> None:
        """Copies what is no view from the memory."""
        for variable, values in self._copied:
            self._tensor(variable).data.copy_(values)

    def clear(self) -> None:
        """Takes all gradients away: autograd then hands over its own, where it would add to zeros."""
        for parameter in self.parameters.values():
            parameter.grad = None
        for block in self._rows.all_blocks() if self._rows else ():
            if block.leaf is not None:
                block.leaf.grad = None

    @torch.no_grad()
    def collect_rows(self, share: float) -> None:
        """Adds what the batch has for rows, which counts so much in the step."""
        for block in self._rows.all_blocks():
            if block.leaf is not None and block.leaf.grad is not None:
                block.gradient += block.leaf.grad.numpy() * numpy.float32(share)

    @torch.no_grad()
    def collect(self, gradients: None = None) -> None:
        """Copies the gradients of the module's parameters into the memory."""
        for variable, gradient in zip(self.variables, self._gradients[self._memory.set]):
            if not variable.trainable:
                continue
            found = self.parameters[variable.name].grad
            if found is None:  # unused in this batch
                gradient.zero_()
            else:
                gradient.copy_(found.to_dense() if found.is_sparse else found)

    @torch.no_grad()
    def finish(self) -> None:
        """Writes what this step has changed all else by, as a gradient of plain SGD at rate 1."""
        for variable, values, gradient in zip(self.variables, self._values, self._gradients[self._memory.set]):
            if not variable.trainable:
                torch.sub(values, self._tensor(variable).detach().cpu(), out=gradient)

    def changes(self) -> dict[str, tuple[int, int]]:
        """How often each parameter was changed in place, which only the job may do, and where it lies: elsewhere the
        job would not see it any more. One that is frozen counts as a statistic, which the loop may keep."""
        return {name: (parameter._version, parameter.data_ptr()) for name, parameter in self._watched().items()}

    def sums(self) -> dict[str, int]:
        """Of the bits of each of these: others once it has other values, whether or not they are numbers, and however
        they were written. changes() does not tell of what is written to its `data`."""
        return {name: _sum_of_bits(parameter) for name, parameter in self._watched().items()}

    def _watched(self) -> dict[str, torch.nn.Parameter]:
        return {**self.parameters, **self.left_out}

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """In eval mode and without gradients; then each module is in the mode that it was in."""
        modes = [(module, module.training) for module in self.module.modules()]
        self.module.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            for module, training in modes:
                module.training = training

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """What changes buffers and gradients in here leaves no trace, unless it gives trained parameters other values:
        a model that does so by its first batch notes in a buffer that it has."""
        before = self.sums()
        places = [(part._buffers, key) for _, part, key in _each(self.module, "_buffers")]
        buffers = [(holder, key, holder[key], holder[key].clone()) for holder, key in places]
        yield
        for holder, key, buffer, value in buffers if self.sums() == before else ():
            with torch.no_grad():
                holder[key] = buffer.copy_(value)
        for parameter in self.module.parameters():
            parameter.grad = None

    def takes_one(self, compute: Callable[[], Any]) -> bool:
        """Whether compute(), of a batch of one example, is not refused by a batch norm, which wants several. It leaves
        no trace, also where the batch before gave parameters their first values."""
        if not any(isinstance(part, torch.nn.modules.batchnorm._BatchNorm) for part in self.module.modules()):
            return True
        with self.unchanged(), torch.no_grad():
            try:
                compute()
            except Exception as error:  # noqa: BLE001 (another error of the user's code is told where it matters)
                return "more than 1 value per channel" not in str(error)
        return True

    def to_device(self, batch: Any) -> Any:
        """The batch with all its tensors where the module is."""
        if isinstance(batch, torch.Tensor):
            return batch.to(self.device)
        if isinstance(batch, dict):
            return {name: self.to_device(value) for name, value in batch.items()}
        if isinstance(batch, (tuple, list)):
            return [self.to_device(value) for value in batch]
        return batch.to(self.device) if callable(getattr(batch, "to", None)) else batch

    def backward(self, outcome: Outcome) -> None:
        """Computes the gradients."""
        self.check_loss(outcome.loss)
        if not outcome.loss.requires_grad:
            raise TrainingError(
                "the loss has no gradient: compute it from the model's output by functions of torch alone, "
                "without no_grad(), detach() or item()"
            )
        outcome.loss.backward()

    def check_gradients(self, gradients: Any) -> None:
        """Raises TrainingError if there are none."""
        if gradients is not None:
            raise TrainingError("gradients= is for a dict of arrays: a torch.nn.Module has its own, of loss.backward()")
        if not self.readers.tables and all(parameter.grad is None for parameter in self.parameters.values()):
            raise TrainingError("no parameter of the model has a gradient: call loss.backward() before push")

    def check_loss(self, loss: Any) -> None:
        """Raises TrainingError if it is no loss that a step can be made of."""
        shape = list(loss.shape) if isinstance(loss, torch.Tensor) else kind_of(loss)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.is_floating_point():
            what = shape if isinstance(shape, str) else f"a tensor of shape {shape} and {loss.dtype}"
            raise TrainingError(f"the loss is no number but {what}: return one tensor, the batch's mean loss")


def step_of(module: torch.nn.Module, loss: Optional[Callable], step: Optional[Callable]) -> Callable[[Any], Outcome]:
    """The function that makes an Outcome of a batch: the user's step, or model(*inputs) and loss(output, target)."""
    if (loss is None) == (step is None):
        raise TrainingError("give either loss=function(output, target), or step=function(model, batch)")
    if getattr(loss, "reduction", "mean") == "sum":
        raise TrainingError("loss sums over the batch, but a batch's mean is needed: give it reduction='mean'")
    if isinstance(loss, torch.nn.Module) and any(parameter.requires_grad for parameter in loss.parameters()):
        raise TrainingError("loss has parameters of its own, which nobody would train: make it a part of the model")

    def outcome(batch: Any) -> Outcome:
        if step is not None:
            return Outcome.of(step(module, batch), 1)
        if not isinstance(batch, (tuple, list)) or len(batch) < 2:
            raise TrainingError(
                f"a batch is {kind_of(batch)}, not (input, target): "
                "give step=function(model, batch) in place of loss=, which returns the batch's mean loss"
            )
        *inputs, target = batch
        output = module(*inputs)
        return Outcome(loss(output, target), output, target)

    return outcome


def _tell_of_tables(name: str, part: torch.nn.Module) -> None:
    """Says what a table in place of this embedding would save, where that is much."""
    mib = part.weight.numel() * part.weight.element_size() / 2**20
    if not part.sparse and mib <= _LARGE_MIB:
        return
    why = "has sparse=True, but here its gradient is made dense" if part.sparse else "is large"
    padding = "" if part.padding_idx is None else f", padding_idx={part.padding_idx}"
    mode = f", mode={part.mode!r}" if isinstance(part, torch.nn.EmbeddingBag) else ""
    sys.stderr.write(
        f"downpour: {name} {why}: each step moves all of its {mib:.1f} MiB, both ways. Only the rows of a batch move "
        f"with downpour.{type(part).__name__}({part.embedding_dim}{mode}{padding}) in its place\n"
    )


def _sum_of_bits(tensor: torch.Tensor) -> int:
    return int(tensor.detach().view(torch.int32).sum(dtype=torch.int32))


def _each(module: torch.nn.Module, kind: str) -> Iterator[tuple[str, torch.nn.Module, str]]:
    """(name, the module that has it, its key there) of each parameter or buffer, each once, under its first name."""
    seen = set()
    for prefix, part in module.named_modules():
        for key, tensor in getattr(part, kind).items():
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield f"{prefix}.{key}" if prefix else key, part, key
