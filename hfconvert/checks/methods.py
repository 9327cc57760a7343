"""What PEFT's methods make of a weight, in float64 and by formulas of our own, for the `merge` check.

A formula takes the weight as [out, in, ...] and the adapter's tensors, and gives the new weight. Sources: the
papers of the methods (LoRA 2106.09685, DoRA 2402.09353, LoHa 2108.06098, LyCORIS 2309.14859, IA3 2205.05638,
OFT 2306.07280, VeRA 2310.11454, AdaLoRA 2303.10512, PiSSA 2404.02948, OLoRA 2406.01775).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hfconvert.lora.terms import Term

Doubles = NDArray[np.float64]
Tensors = Mapping[str, Doubles]


@dataclass(frozen=True, slots=True)
class Case:
    """What a formula is about: the weight so far and before all updates, tensors, term and scale."""

    weight: Doubles
    before: Doubles
    tensors: Tensors
    term: Term
    scale: float


Formula = Callable[[Case], Doubles]


def lora(case: Case) -> Doubles:
    """B A added; with a magnitude, rows brought to it (DoRA)."""
    update = composed(case.tensors, case.weight.shape) * case.scale
    start = case.weight - _taken_away(case.before, case.term, case.scale)
    magnitude = case.tensors.get("lora_magnitude_vector")
    if magnitude is None:
        return start + update
    if case.term.layer is not None and case.term.layer.kind == "embedding":
        norms = np.linalg.norm(case.before + update, axis=0, keepdims=True)
        return np.asarray((start + update) * (magnitude.reshape(1, -1) / norms), np.float64)
    rows = (case.before + update).reshape(len(case.weight), -1)
    factor = magnitude.reshape(-1) / np.linalg.norm(rows, axis=1)
    shape = (-1, *[1] * (case.weight.ndim - 1))
    return np.asarray((start + update) * factor.reshape(shape), np.float64)


def composed(tensors: Tensors, shape: tuple[int, ...]) -> Doubles:
    """B A for linear layers, embeddings and convolutions, whose B is of size 1 in space."""
    if "lora_embedding_A" in tensors:
        return (tensors["lora_embedding_B"] @ tensors["lora_embedding_A"]).T
    a, b = tensors["lora_A"], tensors["lora_B"]
    return (b.reshape(len(b), -1) @ a.reshape(len(a), -1)).reshape(shape)


def _taken_away(before: Doubles, term: Term, scale: float) -> Doubles:
    """What the initialiser took from the base when training began (PiSSA, OLoRA)."""
    init = str(term.settings.values.get("init_lora_weights")).lower()
    if init.startswith("pissa"):
        left, values, right = np.linalg.svd(before, full_matrices=False)
        return np.asarray((left[:, : term.r] * values[: term.r]) @ right[: term.r], np.float64)
    if init.startswith("olora"):
        q, r = np.linalg.qr(before)
        return np.asarray(scale * (q[:, : term.r] @ r[: term.r]), np.float64)
    return np.zeros_like(before)


def adalora(case: Case) -> Doubles:
    """B diag(E) A times alpha over the rank that is left; PEFT adds 1e-5 to that."""
    a, b, e = case.tensors["lora_A"], case.tensors["lora_B"], case.tensors["lora_E"]
    alpha = case.term.alpha if case.term.alpha > 0 else float(len(a))
    return case.weight + (b * e.reshape(-1)) @ a * (case.term.weight * alpha / (len(a) + 1e-5))


def loha(case: Case) -> Doubles:
    """The Hadamard product of two low-rank matrices."""
    one, two = (_factor(case.tensors, f"hada_w{number}", f"hada_t{number}") for number in (1, 2))
    return case.weight + (one * two).reshape(case.weight.shape) * case.scale


def lokr(case: Case) -> Doubles:
    """The Kronecker product of two matrices, each whole or of low rank."""
    one, two = _factor(case.tensors, "lokr_w1", ""), _factor(case.tensors, "lokr_w2", "lokr_t2")
    # Over one dimension in space PEFT trains another product than LyCORIS, and that is what counts.
    if two.ndim == 4:
        one = one.reshape(*one.shape, 1, 1)
    return case.weight + np.kron(one, two).reshape(case.weight.shape) * case.scale


def _factor(tensors: Tensors, name: str, core: str) -> Doubles:
    """A matrix by its name, or the product of its halves, around a core over the kernel if there is one."""
    if name in tensors:
        return tensors[name]
    left, right = tensors[f"{name}_a"], tensors[f"{name}_b"]
    if core not in tensors:
        return left @ right
    return np.asarray(
        np.einsum("ijkl,ip,jr->prkl", _square(tensors[core]), left, right), np.float64
    )


def _square(core: Doubles) -> Doubles:
    """Kernels of one dimension as those of two."""
    return core if core.ndim == 4 else core[..., None]


def ia3(case: Case) -> Doubles:
    """Outputs scaled, or inputs where the module is a feed-forward one."""
    factor = case.tensors["ia3_l"].reshape(-1)
    inputs = case.term.layer is not None and case.term.layer.feedforward
    shape = [1] * case.weight.ndim
    shape[1 if inputs else 0] = -1
    return case.weight * factor.reshape(shape)


def vera(case: Case) -> Doubles:
    """Shared projections, scaled by vectors of the module."""
    rows, columns = case.weight.shape
    a, b = case.tensors["vera_A"][:, :columns], case.tensors["vera_B"][:rows]
    left = b * case.tensors["vera_lambda_b"].reshape(-1, 1)
    return case.weight + case.term.weight * left @ (
        a * case.tensors["vera_lambda_d"].reshape(-1, 1)
    )


def oft(case: Case) -> Doubles:
    """Inputs turned block by block, each turn made from a skew-symmetric matrix."""
    vectors = case.tensors["oft_R"]
    size = round((1 + (1 + 8 * vectors.shape[1]) ** 0.5) / 2)
    flat = case.weight.reshape(len(case.weight), -1)
    turned = np.empty_like(flat)
    for number in range(flat.shape[1] // size):
        turn = _turn(vectors[number % len(vectors)], size, case.term)
        part = slice(number * size, (number + 1) * size)
        turned[:, part] = flat[:, part] @ turn.T
    return turned.reshape(case.weight.shape)


def _turn(vector: Doubles, size: int, term: Term) -> Doubles:
    skew = np.zeros((size, size))
    skew[np.triu_indices(size, 1)] = vector
    skew -= skew.T
    unit = np.eye(size)
    if not term.settings.get("use_cayley_neumann", default=True):
        return np.asarray(np.linalg.solve((unit + skew).T, (unit - skew).T).T, np.float64)
    count = int(term.settings.get("num_cayley_neumann_terms", 5))
    powers = [np.linalg.matrix_power(skew, number) for number in range(count)]
    result: Doubles = unit + 2 * sum(powers[1 : count - 1], np.zeros_like(unit)) + powers[count - 1]
    return result


FORMULAS: Mapping[str, Formula] = {
    "LORA": lora,
    "ADALORA": adalora,
    "LOHA": loha,
    "LOKR": lokr,
    "IA3": ia3,
    "VERA": vera,
    "OFT": oft,
}


def has_formula(term: Term) -> bool:
    """Whether the method, as this adapter uses it, has a formula here."""
    method = term.settings.peft_type
    special = (
        any(term.settings.get(name) for name in _OTHERS)
        or (method == "VERA" and "vera_A" not in term.shared)
        or (method == "OFT" and ("oft_R.weight" not in term.tensors or term.settings.get("coft")))
    )
    return method in FORMULAS and not special


_OTHERS = ("use_qalora", "use_bdlora", "kasa_config")
