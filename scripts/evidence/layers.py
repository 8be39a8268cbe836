"""SHAPES -> PROGRAM + TIMES: a transformer layer as the kernels of one card, priced and replayed as swapconf does it.

The kernels are those of Megatron-LM: products of matrices, attention either as products, softmax and dropout or as one
flash kernel, norms, fused element-wise kernels, and the collectives of tensor parallelism. In the backward pass the
collective of a gradient runs while the weight gradient is computed; everywhere else the card waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from swapconf.timing import timeline
from swapconf.timing.collectives import collective_us
from swapconf.timing.cost import Hardware
from swapconf.timing.costing import seconds
from swapconf.timing.timing import COLLECTIVE, COMPUTE, Program, Waits
from swapconf.trace.lifetimes import NEVER
from swapconf.trace.trace import Tensor
from swapconf.trace.work import FLASH, FLASH_GRAD, Attention, work

HALF, BYTE = "BFloat16", "UInt8"
_CAUSAL_BNSD = Attention(layout=1, is_causal=True)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Of the whole model; ``ffn``: 4 x hidden of a GPT layer. ``llama``: RMSNorm, rotary embedding, SwiGLU and flash
    attention, without dropout."""

    hidden: int
    ffn: int
    heads: int
    sequence: int
    batch: int
    tensor_parallel: int
    sequence_parallel: bool = False
    llama: bool = False

    @property
    def tokens(self) -> int:
        return self.sequence * self.batch

    @property
    def own_tokens(self) -> int:
        """Those whose norms and residuals this card works on."""
        return self.tokens // (self.tensor_parallel if self.sequence_parallel else 1)


@dataclass
class Kernels:
    """Kernels in the order of launch. ``joined``: the collective that the next computation waits for."""

    hardware: Hardware
    ranks: tuple[int, ...]
    times_us: list[float] = field(default_factory=list)
    streams: list[int] = field(default_factory=list)
    waits: list[tuple[int, ...]] = field(default_factory=list)
    joined: list[int] = field(default_factory=list)

    def compute(
        self, primitive: str, inputs: list[Tensor], outputs: list[Tensor], attention: Attention | None = None
    ) -> None:
        done = work(primitive, inputs, outputs, attention=attention)
        self._add(1e6 * seconds(done, self.hardware), 0, tuple(self.joined))
        self.joined.clear()

    def collect(self, primitive: str, tensor: Tensor, *, waited_for: bool = True) -> int:
        """Behind all computation so far. ``waited_for``: by the next computation."""
        before = [index for index, stream in enumerate(self.streams) if stream == 0]
        took_us = collective_us(primitive, tensor.size_bytes or 0, self.ranks, _at_peak(self.hardware))
        self._add(took_us, 1, tuple(before[-1:]))
        if waited_for:
            self.joined.append(len(self.times_us) - 1)
        return len(self.times_us) - 1

    def join(self, collective: int) -> None:
        self.joined.append(collective)

    def _add(self, time_us: float, stream: int, waits: tuple[int, ...]) -> None:
        self.times_us.append(time_us)
        self.streams.append(stream)
        self.waits.append(waits)

    def product(self, rows: int, inner: int, columns: int) -> None:
        self.compute("MatMul", [half(rows, inner), half(inner, columns)], [half(rows, columns)])

    def batched(self, number: int, rows: int, inner: int, columns: int) -> None:
        self.compute(
            "BatchMatMul", [half(number, rows, inner), half(number, inner, columns)], [half(number, rows, columns)]
        )

    def step_us(self) -> float:
        count = len(self.times_us)
        program = Program(
            names=tuple(map(str, range(count))),
            waits=Waits.of_rows(self.waits),
            stream=np.array(self.streams, dtype=np.int32),
            kind=np.array([COLLECTIVE if stream else COMPUTE for stream in self.streams], dtype=np.uint8),
            event=np.arange(count, dtype=np.int64),
            freed=np.full(count, NEVER, dtype=np.int64),
        )
        return timeline.replay(program, np.array(self.times_us)).step_us


def _at_peak(card: Hardware) -> Hardware:
    """As kernels that compute are priced here: what moves alone, at the peak of the links."""
    return card.having("collective_slowdown", 1.0, "at peak").having("collective_start_us", 1e-3, "at peak")


def half(*shape: int) -> Tensor:
    return Tensor(HALF, shape)


def forward_us(layer: Layer, hardware: Hardware) -> float:
    kernels = _kernels(layer, hardware)
    forward(layer, kernels)
    return kernels.step_us()


def backward_us(layer: Layer, hardware: Hardware, recompute: str) -> float:
    """With what runs again before it: ``none``, ``full`` or ``selective`` (the core of attention)."""
    kernels = _kernels(layer, hardware)
    if recompute == "full":
        forward(layer, kernels)
    backward(layer, kernels, again=recompute == "selective")
    return kernels.step_us()


def _kernels(layer: Layer, hardware: Hardware) -> Kernels:
    return Kernels(hardware=hardware, ranks=tuple(range(layer.tensor_parallel)))


def forward(layer: Layer, kernels: Kernels) -> None:
    hidden, own, all_tokens, part = layer.hidden, layer.own_tokens, layer.tokens, layer.tensor_parallel
    for block in ("attention", "feed forward"):
        kernels.compute("Norm", [half(own, hidden)], [half(own, hidden)])
        _gather(layer, kernels)
        if block == "attention":
            kernels.product(all_tokens, hidden, 3 * hidden // part)
            _core(layer, kernels)
            kernels.product(all_tokens, hidden // part, hidden)
        else:
            _feed_forward(layer, kernels)
        _reduce(layer, kernels)
        mask = [] if layer.llama else [Tensor(BYTE, (own, hidden))]
        kernels.compute("BiasDropoutAdd", [half(own, hidden)] * 2, [half(own, hidden), *mask])


def _core(layer: Layer, kernels: Kernels) -> None:
    """What selective recompute runs again."""
    number, size, wide = layer.batch * layer.heads // layer.tensor_parallel, layer.sequence, layer.hidden // layer.heads
    if layer.llama:
        own = half(layer.batch, layer.heads // layer.tensor_parallel, size, wide)
        kernels.compute("RotaryEmbedding", [own, own], [own, own])
        kernels.compute(FLASH, [own] * 3, [own], _CAUSAL_BNSD)
        return
    scores = half(number, size, size)
    kernels.batched(number, size, wide, size)
    kernels.compute("ScaledMaskedSoftmax", [scores], [scores])
    kernels.compute("Dropout", [scores], [scores, Tensor(BYTE, scores.shape)])
    kernels.batched(number, size, size, wide)


def _feed_forward(layer: Layer, kernels: Kernels) -> None:
    part, inner = layer.tensor_parallel, layer.ffn // layer.tensor_parallel
    width = 2 * inner if layer.llama else inner
    kernels.product(layer.tokens, layer.hidden, width)
    kernels.compute("Activation", [half(layer.tokens, width)], [half(layer.tokens, inner)])
    kernels.product(layer.tokens, layer.ffn // part, layer.hidden)


def backward(layer: Layer, kernels: Kernels, *, again: bool) -> None:
    hidden, own, tokens, part = layer.hidden, layer.own_tokens, layer.tokens, layer.tensor_parallel
    for block in ("feed forward", "attention"):
        mask = [] if layer.llama else [Tensor(BYTE, (own, hidden))]
        kernels.compute("BiasDropoutAddGrad", [half(own, hidden), *mask], [half(own, hidden)])
        _gather(layer, kernels)
        if block == "attention":
            _weights_after(kernels, tokens, hidden, hidden // part)
            if again:
                _core(layer, kernels)
            _core_gradient(layer, kernels)
            _overlapped(layer, kernels, 3 * hidden // part)
        else:
            inner = layer.ffn // part
            width = 2 * inner if layer.llama else inner
            _weights_after(kernels, tokens, hidden, inner)
            kernels.compute("ActivationGrad", [half(tokens, inner), half(tokens, width)], [half(tokens, width)])
            _overlapped(layer, kernels, width)
        kernels.compute("NormGrad", [half(own, hidden)] * 2, [half(own, hidden)])
        kernels.compute("Add", [half(own, hidden)] * 2, [half(own, hidden)])


def _weights_after(kernels: Kernels, tokens: int, given: int, wanted: int) -> None:
    """Both gradients of a product whose input was split: nothing is communicated."""
    kernels.product(tokens, given, wanted)
    kernels.product(wanted, tokens, given)


def _overlapped(layer: Layer, kernels: Kernels, given: int) -> None:
    """Both gradients of a product whose output was split: that of the input is reduced meanwhile."""
    saved = None
    if layer.sequence_parallel and layer.tensor_parallel > 1:  # its input was kept in parts
        saved = kernels.collect("AllGather", half(layer.tokens, layer.hidden), waited_for=False)
    kernels.product(layer.tokens, given, layer.hidden)
    if layer.tensor_parallel > 1:
        reduced = kernels.collect(_reducing(layer), half(layer.tokens, layer.hidden), waited_for=False)
        if saved is not None:
            kernels.join(saved)
        kernels.product(layer.hidden, layer.tokens, given)
        kernels.join(reduced)
    else:
        kernels.product(layer.hidden, layer.tokens, given)


def _core_gradient(layer: Layer, kernels: Kernels) -> None:
    number, size, wide = layer.batch * layer.heads // layer.tensor_parallel, layer.sequence, layer.hidden // layer.heads
    if layer.llama:
        own = half(layer.batch, layer.heads // layer.tensor_parallel, size, wide)
        kernels.compute(FLASH_GRAD, [own] * 5, [own] * 3, _CAUSAL_BNSD)
        kernels.compute("RotaryEmbeddingGrad", [own, own], [own, own])
        return
    scores = half(number, size, size)
    kernels.batched(number, size, wide, size)
    kernels.batched(number, size, size, wide)
    kernels.compute("DropoutGrad", [scores, Tensor(BYTE, scores.shape)], [scores])
    kernels.compute("ScaledMaskedSoftmaxGrad", [scores, scores], [scores])
    kernels.batched(number, size, size, wide)
    kernels.batched(number, size, size, wide)


def _gather(layer: Layer, kernels: Kernels) -> None:
    if layer.sequence_parallel and layer.tensor_parallel > 1:
        kernels.collect("AllGather", half(layer.tokens, layer.hidden))


def _reduce(layer: Layer, kernels: Kernels) -> None:
    if layer.tensor_parallel > 1:
        kernels.collect(_reducing(layer), half(layer.tokens, layer.hidden))


def _reducing(layer: Layer) -> str:
    return "ReduceScatter" if layer.sequence_parallel else "AllReduce"
