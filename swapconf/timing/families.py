"""SIGNATURE -> FAMILY AND TERMS: kernels that come up to a card's rates alike, and what they are made of.

A kernel takes the sum of its terms, each over the efficiency of its family (`Fit`): a product of matrices that reads
and writes much for its operations takes longer than either would alone, as public kernels show.

A kernel's shapes do not tell where its data is. Flat tensors are taken to come from memory: those of optimizers and
communication buffers are flat, and nothing has touched them for a step. Others come from the cache as far as they fit:
whole up to its size, not at all from 1.5 times that on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import ceil, log2, prod

from swapconf.timing.cost import GIGA, TERA, Hardware, Terms
from swapconf.timing.measurements import MeasuredKernel
from swapconf.trace.trace import Tensor
from swapconf.trace.work import (
    ASSIGNING,
    COLLECTIVES,
    FILLING,
    FLASH,
    FLASH_GRAD,
    GROUPED,
    MATRIX,
    TAKING,
    VIEWS,
    Attention,
    Work,
    attention_of,
    work,
)
from swapconf.upstream.device_kernels import kernel_of, plain
from swapconf.words.units import MIB

ELEMENTS_A_BLOCK = 1024  # public kernels of 4096 elements run on 4 vector cores, of 12288 on 12
MAX_BLOCKS = 48  # vector cores of an Ascend 910B

# what is fitted together; `other` is what no list below names
FAMILIES: Mapping[str, str] = {
    "matmul": "products of two matrices",
    "batch_matmul": "batches of products",
    "grouped_matmul": "grouped products",
    "flash": "flash attention without a causal mask",
    "flash_causal": "flash attention with a causal mask",
    "flash_grad": "gradient of flash attention without a causal mask",
    "flash_grad_causal": "gradient of flash attention with a causal mask",
    "elementwise": "element by element",
    "activation": "activations and their gradients",
    "move": "copying, cutting, joining, repeating",
    "transpose": "changing the order of axes",
    "gather": "reading or adding by index",
    "fill": "writing one value everywhere",
    "reduction": "sums, norms and maxima over axes",
    "norm": "LayerNorm and RmsNorm",
    "norm_grad": "gradients of LayerNorm and RmsNorm",
    "softmax": "softmax and cross entropy",
    "optimizer": "fused steps of an optimizer",
    "random": "random bits of dropout",
    "search": "kernels whose work depends on values: sorting, NonZero, unique",
    "ai_cpu": "kernels that vector cores can't do, on the AI CPU",
    "other": "all else that computes",
}

_MEMBERS: Mapping[str, str] = {
    "activation": "gelu gelugrad fastgelu fastgelugrad silu silugrad swiglu swiglugrad sigmoid sigmoidgrad swish "
    "swishgrad tanh tanhgrad",
    # AsStrided copies what a cut left in pieces, of which each stays whole; no order changes within a row
    "move": "asstrided broadcastto concat concatd inplacecopy pack pad padv slice sliceext split splitd splitv "
    "splitwithsize splittensor stack stridedslice stridedsliced tensormove tile assign stridedslicegrad",
    "transpose": "transdata transpose transposed triu tril",
    "gather": "embedding gather gatherd gatherelements index indexselect onehot unsortedsegmentsum embeddingdensegrad "
    "gatherdgrad scatterndupdate indexput",
    "fill": "fill fillscalar memset oneslike zeroslike oneslikeext zeroslikeext",
    "reduction": "reducesum reducesumd reducemax reducemaxd reducemin reducemean reducemeand lpnormreduce lpnorm "
    "sumext argmax argmaxwithvalue argmaxd l2norm meanext reduceall reduceany squaresumall squaresumv cumsum "
    "bias biasaddgrad",
    "norm": "layernorm layernormext rmsnorm addrmsnorm addrmsnormbias addlayernorm",
    "norm_grad": "layernormgrad layernormgradext rmsnormgrad layernormxbackprop layernormbetagammabackprop",
    "softmax": "softmax softmaxgrad logsoftmax logsoftmaxgrad scaledmaskedsoftmax scaledmaskedsoftmaxgrad "
    "softmaxcrossentropywithlogits sparsesoftmaxcrossentropywithlogits nllloss nlllossgrad crossentropyloss "
    "crossentropylossgrad softmaxext softmaxbackward",
    "optimizer": "adamw applyadamw adamweightdecay fusedadamweightdecay applyadam adam",
    "random": "dsastatelessgenbitmask dropoutgenmask dsagenbitmask dropoutgenmaskext statelessdropoutgenmask "
    "dsarandomuniform",
    "search": "nonzero sort topk topkext unique uniqueext argsort maskedselect",
}
_FAMILY = {name: family for family, names in _MEMBERS.items() for name in names.split()}
_OTHER_LETTERS = re.compile(r"[^a-z0-9_]")  # in a name that a file is to hold
_MOST_LETTERS = 100
AI_CPU = "ai_cpu"
CPU_CORE = "AI_CPU"  # as profilers call it
# numbers that the vector cores of an Ascend 910B don't add or cast: ops-math/math/add/op_api/add.cpp:34 and
# math/cast/op_api/cast.cpp:78
_FOREIGN = frozenset({"Float64", "UInt64"})


def family_of(primitive: str, attention: Attention | None = None, tensors: Sequence[Tensor] = ()) -> str:
    """One of FAMILIES. ``tensors``: what it reads and writes; of foreign types element-wise kernels run elsewhere."""
    name = plain(primitive)
    if name in _MATRIX:
        return "batch_matmul" if name.startswith(("batch", "bmm", "transposebatch")) else "matmul"
    if name in _GROUPED:
        return "grouped_matmul"
    if name in _FLASH:
        causal = "_causal" if attention is not None and attention.is_causal else ""
        return ("flash" if name == plain(FLASH) else "flash_grad") + causal
    family = _FAMILY.get(name, "elementwise")
    is_foreign = family == "elementwise" and any(tensor.dtype in _FOREIGN for tensor in tensors)
    return AI_CPU if is_foreign else family


def kind_of(primitive: str, family: str, inputs: Sequence[Tensor] = (), outputs: Sequence[Tensor] = ()) -> str:
    """What one fit of one's own is for: a kernel of a family, of products apart those whose first matrix is read by
    columns, as for the gradients of weights: ``matmul/matmul transposed``."""
    kernel = _OTHER_LETTERS.sub("_", kernel_of(primitive))[:_MOST_LETTERS]
    is_product = family in ("matmul", "batch_matmul", "grouped_matmul")
    return f"{family}/{kernel}" + (" transposed" if is_product and _is_by_columns(inputs, outputs) else "")


def _is_by_columns(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> bool:
    shapes = [tensor.shape for tensor in (*inputs[:1], *outputs[:1]) if len(tensor.shape) > 1]
    return len(shapes) == 2 and shapes[0][-2] != shapes[1][-2]


_FULL_HEAD = 128  # narrower heads take as long: the softmax of the scores does not get less
_CALLED = {plain(name): name for name in (*MATRIX, *GROUPED, FLASH, FLASH_GRAD, *FILLING, *TAKING, *ASSIGNING, *VIEWS)}
_COMMUNICATING = frozenset(map(plain, COLLECTIVES)) | {"allgatheraicpukernel"}
_MATRIX = frozenset(map(plain, MATRIX)) | {"transposebatchmatmul"}
_GROUPED = frozenset(map(plain, GROUPED))
_FLASH = frozenset({plain(FLASH), plain(FLASH_GRAD)})


def terms(primitive: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], done: Work, hardware: Hardware) -> Terms:
    """``done``: what it does, neither a copy nor a collective."""
    value = hardware.value
    products = done.matrix_ops + done.wide_matrix_ops * value("matrix_fp32_slowdown")
    if plain(primitive) in _FLASH and inputs and len(inputs[0].shape) == 4 and 0 < inputs[0].shape[-1] < _FULL_HEAD:
        products *= _FULL_HEAD / inputs[0].shape[-1]
    cache_bytes = hardware.card["cache_mib"].value * MIB
    tensors = (*inputs, *outputs)
    held = (
        0.0 if is_flat(tensors) else min(max((1.5 * cache_bytes - done.memory_bytes) / (0.5 * cache_bytes), 0.0), 1.0)
    )
    spread_over = outputs if outputs and primitive in TAKING else tensors
    blocks = min(MAX_BLOCKS, max(1, ceil(max(map(_elements, spread_over), default=0) / ELEMENTS_A_BLOCK)))
    return Terms(
        spread=log2(blocks),
        full=float(blocks == MAX_BLOCKS),
        matrix_us=1e6 * products / (value("matrix_tflops") * TERA),
        cached_us=1e6 * held * done.memory_bytes / (value("memory_gbps") * GIGA),
        memory_us=1e6 * (1 - held) * done.memory_bytes / (value("memory_sustained_gbps") * GIGA),
    )


def measured_terms(kernel: MeasuredKernel, hardware: Hardware) -> tuple[str, Terms] | None:
    """(family, terms); None where its shapes were not recorded, and of what does not compute."""
    if not computes(kernel):
        return None
    primitive = primitive_of(kernel.type)
    inputs, outputs = (
        _in_rows(tensors, formats)
        for tensors, formats in zip((kernel.inputs, kernel.outputs), kernel.formats, strict=True)
    )
    attention = attention_of(primitive, inputs)
    done = work(primitive, inputs, outputs, attention=attention)
    family = AI_CPU if kernel.core == CPU_CORE else family_of(primitive, attention, (*inputs, *outputs))
    return family, terms(primitive, inputs, outputs, done, hardware)


def computes(kernel: MeasuredKernel) -> bool:
    """Whether its shapes were recorded, and it is no collective and no view."""
    primitive = primitive_of(kernel.type)
    is_other = primitive in COLLECTIVES or primitive in VIEWS or plain(primitive) in _COMMUNICATING
    return bool(kernel.inputs) and not is_other


def primitive_of(kind: str) -> str:
    """MindSpore's name of what a profiler calls by the name of the device's kernel."""
    return _CALLED.get(plain(kind), kind)


def _in_rows(tensors: Sequence[Tensor], formats: Sequence[str]) -> tuple[Tensor, ...]:
    """Of blocks of a matrix (``FRACTAL_NZ``: blocks of columns, of rows, rows and columns of a block) the matrix."""
    found = []
    for tensor, form in zip_longest(tensors, formats[: len(tensors)], fillvalue=""):
        assert isinstance(tensor, Tensor)
        shape = tensor.shape
        if form == "FRACTAL_NZ" and len(shape) >= 4:
            shape = (*shape[:-4], shape[-3] * shape[-2], shape[-4] * shape[-1])
        found.append(Tensor(tensor.dtype, shape))
    return tuple(found)


def is_flat(tensors: Sequence[Tensor]) -> bool:
    """Whether the largest has one axis."""
    largest = max(tensors, key=_elements, default=None)
    return largest is not None and len(largest.shape) == 1 and _elements(largest) > ELEMENTS_A_BLOCK * MAX_BLOCKS


def _elements(tensor: Tensor) -> int:
    return prod(tensor.shape) if -1 not in tensor.shape else 0
