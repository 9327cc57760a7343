"""Judge what a pickle asks for, by exact names: inert, unknown or dangerous."""

from __future__ import annotations

from hfconvert.pickles.dangerous import ATTRIBUTES, METHODS, MODULES, NAMES, REEXPORTED
from hfconvert.pickles.rebuild_torch import TYPED_STORAGES
from hfconvert.pickles.rebuilds import REBUILDS
from hfconvert.pickles.values import Global, Verdict
from hfconvert.tensors.dtype import BY_TORCH

_LOCAL = ("<locals>", "<lambda>")
_TORCH_VALUES = frozenset(
    {
        *BY_TORCH,
        *("float", "double", "half", "long", "int", "short", "cfloat", "cdouble", "chalf"),
        *(
            "strided",
            "sparse_coo",
            "sparse_csr",
            "contiguous_format",
            "channels_last",
            "preserve_format",
        ),
        *(
            "per_tensor_affine",
            "per_channel_affine",
            "per_tensor_symmetric",
            "per_channel_symmetric",
        ),
        *("per_channel_affine_float_qparams", "UntypedStorage", "Tensor"),
        *TYPED_STORAGES,
    }
)
_UNDER = frozenset(
    {
        *(
            "__class__",
            "__bases__",
            "__base__",
            "__mro__",
            "__subclasses__",
            "__globals__",
            "__builtins__",
        ),
        *(
            "__dict__",
            "__getattribute__",
            "__getattr__",
            "__setattr__",
            "__code__",
            "__loader__",
            "__import__",
        ),
        *(
            "__reduce__",
            "__reduce_ex__",
            "__call__",
            "__init__",
            "__init_subclass__",
            "__setstate__",
        ),
    }
)
_INERT = frozenset(
    {
        *(Global("torch", name) for name in _TORCH_VALUES),
        *(Global("torch.cuda", name) for name in TYPED_STORAGES),
        *(
            Global("torch.storage", name)
            for name in ("UntypedStorage", "_UntypedStorage", "TypedStorage")
        ),
        Global("torch._tensor", "_rebuild_from_type_v2"),
        Global("torch._tensor", "_rebuild_from_type"),
        Global("torch._tensor", "Tensor"),
        Global("torch.nn.parameter", "Parameter"),
        Global("torch.nn.parameter", "Buffer"),
        Global("numpy", "ndarray"),
        Global("copyreg", "__newobj__"),
        Global("copy_reg", "__newobj__"),
        *(
            Global(module, name)
            for module in ("builtins", "__builtin__")
            for name in ("int", "float", "str", "bool", "unicode", "long", "NoneType", "type(None)")
        ),
    }
)


def judge(module: str, name: str) -> Verdict:
    """What becomes of a loader that imports the name and calls it.

    `inert`: known to do nothing but hold data. `dangerous`: it can run code, start a process, touch a file
    or the network, or it hides what it is. `unknown`: anything else, such as the class of a model.
    """
    found = Global(module, name)
    if found in REBUILDS or found in _INERT:
        return "inert"
    return "dangerous" if _hides(module, name) or _runs(module, name) else "unknown"


def _hides(module: str, name: str) -> bool:
    """No name that an import statement could hold, or one that reaches through a class or module."""
    parts = [*module.split("."), *name.split(".")]
    if not all(part.isidentifier() or part in _LOCAL for part in parts):
        return not module.startswith("copyreg extension")
    reached = name.split(".")
    return (
        not _UNDER.isdisjoint(parts[1:])
        or not REEXPORTED.isdisjoint(reached)
        or not ATTRIBUTES.isdisjoint(reached[1:])
    )


def _runs(module: str, name: str) -> bool:
    if _within(module) or name in NAMES.get(module, ()):
        return True
    head, dot, _ = name.partition(".")
    if not dot:
        return False
    return module in METHODS or head in NAMES.get(module, ()) or _within(f"{module}.{name}")


def _within(module: str) -> bool:
    """Whether the module, or one that it lies in, is dangerous altogether."""
    parts = module.split(".")
    return any(".".join(parts[:count]) in MODULES for count in range(1, len(parts) + 1))
