"""What exported values are in PyTorch: a `dense` layer is a torch.nn.Linear whose weight is the kernel's transpose.

A model of the user's own, as fit() trains it, has PyTorch's names and shapes already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional

from downpour.errors import kind_of

if TYPE_CHECKING:
    import numpy
    import torch


def is_own(values: Mapping[str, numpy.ndarray]) -> bool:
    """Whether these are of a model of the user's own, and not of the dense layers of a job file."""
    dimensions = {"kernel": 2, "bias": 1}
    parts = {name: name.rpartition("/") for name in values}
    return any(not parts[name][1] or value.ndim != dimensions.get(parts[name][2]) for name, value in values.items())


def to_torch(values: Mapping[str, numpy.ndarray], names: Optional[Mapping[str, str]]) -> dict[str, torch.Tensor]:
    """`LAYER/kernel` [in, out] as `MODULE.weight` [out, in], `LAYER/bias` [out] as `MODULE.bias`, both float32.

    `names` says which MODULE each LAYER is; without it they have the same name. Values of a model of the user's own
    stay as they are. Raises ValueError if `names` names a layer that is not there or one module twice.
    """
    import torch

    if is_own(values):
        if names:
            raise ValueError("names maps the layers of a job file, but this model is one of its own: leave names out")
        return {name: torch.from_numpy(value) for name, value in values.items()}
    layers = {name.rpartition("/")[0] for name in values}
    names = dict(names or {})
    if strangers := sorted(set(names) - layers):
        raise ValueError(f"names has {', '.join(strangers)}, but the job's layers are {', '.join(sorted(layers))}")
    modules = {layer: names.get(layer, layer) for layer in layers}
    if len(set(modules.values())) != len(modules):
        raise ValueError(f"two layers would be one module: {modules}")
    tensors = {}
    for name, value in values.items():
        layer, _, kind = name.rpartition("/")
        if kind == "kernel":
            tensors[f"{modules[layer]}.weight"] = torch.from_numpy(value.T.copy())
        else:
            tensors[f"{modules[layer]}.bias"] = torch.from_numpy(value)
    return tensors


def load_into(module: torch.nn.Module, tensors: Mapping[str, torch.Tensor], strict: bool) -> Any:
    """What `module.load_state_dict(tensors, strict)` returns. Raises TypeError, before anything is changed, if one of
    the modules is no torch.nn.Linear; RuntimeError as PyTorch does."""
    import torch

    found = dict(module.named_modules())
    for name in sorted({name.rpartition(".")[0] for name in tensors} & set(found)):
        if not isinstance(found[name], torch.nn.Linear):
            raise TypeError(f"{name} is {kind_of(found[name])}, but a dense layer is a torch.nn.Linear")
    return module.load_state_dict(dict(tensors), strict=strict)


def load_own(module: torch.nn.Module, tensors: Mapping[str, torch.Tensor], strict: bool) -> Any:
    """What `module.load_state_dict(tensors, strict)` returns. What no job has stays as it is: buffers of whole numbers,
    and further names of tied weights. Raises RuntimeError as PyTorch does."""
    state = module.state_dict()
    loaded = {state[name].data_ptr() for name in tensors if name in state}
    rest = {name: value for name, value in state.items() if name not in tensors}
    kept = {name: v for name, v in rest.items() if not v.is_floating_point() or v.data_ptr() in loaded}
    return module.load_state_dict({**tensors, **kept}, strict=strict)
