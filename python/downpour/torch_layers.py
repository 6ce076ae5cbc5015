"""What exported values are in PyTorch: a `dense` layer is a torch.nn.Linear whose weight is the kernel's transpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional

if TYPE_CHECKING:
    import numpy
    import torch


def to_torch(values: Mapping[str, numpy.ndarray], names: Optional[Mapping[str, str]]) -> dict[str, torch.Tensor]:
    """`LAYER/kernel` [in, out] as `MODULE.weight` [out, in], `LAYER/bias` [out] as `MODULE.bias`, both float32.

    `names` says which MODULE each LAYER is; without it they have the same name. Raises ValueError if `names` names a
    layer that is not there or one module twice, or if there is a variable of another kind.
    """
    import torch

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
        if kind == "kernel" and value.ndim == 2:
            tensors[f"{modules[layer]}.weight"] = torch.from_numpy(value.T.copy())
        elif kind == "bias" and value.ndim == 1:
            tensors[f"{modules[layer]}.bias"] = torch.from_numpy(value)
        else:
            raise ValueError(f"{name} of shape {value.shape} is no kernel or bias of a dense layer")
    return tensors


def load_into(module: torch.nn.Module, tensors: Mapping[str, torch.Tensor], strict: bool) -> Any:
    """What `module.load_state_dict(tensors, strict)` returns. Raises TypeError, before anything is changed, if one of
    the modules is no torch.nn.Linear; RuntimeError as PyTorch does."""
    import torch

    found = dict(module.named_modules())
    for name in sorted({name.rpartition(".")[0] for name in tensors} & set(found)):
        if not isinstance(found[name], torch.nn.Linear):
            raise TypeError(f"{name} is a {type(found[name]).__name__}, but a dense layer is a torch.nn.Linear")
    return module.load_state_dict(dict(tensors), strict=strict)
