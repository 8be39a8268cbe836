"""STAGES OF A MODEL -> STEPS of a pipeline, on one rank: its passes, and what it sends and receives. [mindspore]

What a stage receives is told to it by the one before, as an object that a simulated device does not transfer; here it
is the hidden states of the part of a sequence that a rank has. Source: hyper_parallel of 2026,
core/pipeline_parallel/stage.py and platform/mindspore/pipeline_parallel; mindformers 2.1.0,
pynative/distributed/pipeline_parallel.py. That source of September 2026 sums gradients of all micro-batches before it
reduces them; here they are reduced with each, as it was before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mindspore
from mindspore import mint, ops
from mindspore.mint import distributed

from swapconf.dryrun.pynative.hyper_parallel_stand_in.absent import NotInStandIn
from swapconf.dryrun.pynative.hyper_parallel_stand_in.mesh import DeviceMesh
from swapconf.dryrun.pynative.hyper_parallel_stand_in.schedules import (
    Act,
    Step,
    all_forward_first,
    interleaved,
    one_forward_one_backward,
)


class PipelineStage:
    """``submodule``: the model of one stage, which takes what the stage before sends as its first argument. ``mesh``:
    of the ranks of a pipeline."""

    def __init__(
        self,
        submodule: Any,
        stage_index: int,
        stage_num: int,
        mesh: DeviceMesh,
        has_backward: bool = True,
        **_more: Any,
    ) -> None:
        if not has_backward:
            raise NotInStandIn("swapconf's stand-in for hyper_parallel has no stages without a backward pass")
        self.submodule, self.stage_index, self.stage_num, self.mesh = submodule, stage_index, stage_num, mesh
        self.inputs: dict[int, Any] = {}
        self.outputs: dict[int, tuple[Any, ...]] = {}
        self.gradients: dict[int, Any] = {}
        self._to_send: dict[int, Any] = {}
        submodule.set_grad(True)

    @property
    def is_last_stage(self) -> bool:
        return self.stage_index == self.stage_num - 1

    def get_last_stage_sens(self, outputs: Any) -> Any:
        """What the backward pass begins with: ones."""
        if isinstance(outputs, (tuple, list)):
            return [mint.full_like(one, 1.0) for one in outputs]
        return mint.full_like(outputs, 1.0)

    def receive_input(self, micro: int, named: Mapping[str, Any]) -> None:
        buffer = mint.empty(self._input_shape(named), dtype=self._config.compute_dtype, device="Ascend")
        buffer.requires_grad = True
        self.inputs[micro] = buffer
        distributed.irecv(buffer, src=self._rank_of(self.stage_index - 1), group=self.mesh.get_group()).wait()

    def forward(self, micro: int, named: Mapping[str, Any]) -> Any:
        given = (self.inputs[micro],) if self.stage_index else ()
        output = self.submodule(*given, **named)
        self.outputs[micro] = output if isinstance(output, tuple) else (output,)
        return output

    def send_output(self, micro: int) -> None:
        """What receives its gradient has memory from here on, as on cards (docs/evidence/pynative-cards.md, c8)."""
        (output,) = self.outputs[micro]
        self.gradients[micro] = mint.empty(tuple(output.shape), dtype=output.dtype, device="Ascend")
        distributed.isend(output, dst=self._rank_of(self.stage_index + 1), group=self.mesh.get_group()).wait()

    def receive_gradient(self, micro: int) -> None:
        source = self._rank_of(self.stage_index + 1)
        distributed.irecv(self.gradients[micro], src=source, group=self.mesh.get_group()).wait()

    def backward(self, micro: int) -> None:
        outputs = self.outputs.pop(micro)
        seeds = self.get_last_stage_sens(outputs) if self.is_last_stage else [self.gradients[micro]]
        ((output, seed),) = [(one, seed) for one, seed in zip(outputs, seeds, strict=True) if one._requires_grad]
        output.backward(seed)
        self.gradients.pop(micro, None)
        if self.stage_index:
            self._to_send[micro] = self.inputs.pop(micro).grad

    def send_gradient(self, micro: int) -> None:
        gradient = self._to_send.pop(micro)
        distributed.isend(gradient, dst=self._rank_of(self.stage_index - 1), group=self.mesh.get_group()).wait()

    @property
    def _config(self) -> Any:
        return self.submodule.model.decoder.config

    def _rank_of(self, stage: int) -> int:
        return self.mesh.ranks[stage % self.mesh.size()]

    def _input_shape(self, named: Mapping[str, Any]) -> tuple[int, int, int]:
        """Sequence, batch, hidden states; of models with several streams of these, all of them."""
        batch, sequence = named["input_ids"].shape[:2]
        parts = self.mesh.parent.size("cp") * self.mesh.parent.size("tp") if self.mesh.parent is not None else 1
        config = self._config
        streams = config.num_residual_streams if getattr(config, "enable_hyper_connections", False) else 1
        return sequence // parts, batch, config.hidden_size * streams


class _Schedule:
    """``stages``: of this rank."""

    def __init__(self, stages: Sequence[PipelineStage], micro_batch_num: int, swap: bool = False, **_more: Any) -> None:
        if swap:
            raise NotInStandIn("swapconf's stand-in for hyper_parallel swaps nothing between stages of a pipeline")
        self._stages = {stage.stage_index: stage for stage in stages}
        self._micros = micro_batch_num
        first = stages[0]
        self.exec_order = self._order(first.mesh.get_local_rank(), first.mesh.size(), len(stages), micro_batch_num)

    def _order(self, rank: int, ranks: int, chunks: int, micros: int) -> list[Step]:
        raise NotImplementedError

    def run(self, **named: Any) -> list[Any]:
        """What the last stage gives for each micro-batch; nothing where it is not of this rank."""
        micros = [{name: _part(value, at, self._micros) for name, value in named.items()} for at in range(self._micros)]
        found = []
        for step in self.exec_order:
            stage = self._stages[step.stage]
            output = _do(step, stage, micros[step.micro])
            if step.act is Act.FORWARD and stage.is_last_stage:
                found.append(output)
        return found


def _do(step: Step, stage: PipelineStage, named: Mapping[str, Any]) -> Any:
    if step.act is Act.RECEIVE_INPUT:
        return stage.receive_input(step.micro, named)
    if step.act is Act.FORWARD:
        return stage.forward(step.micro, named)
    act = {
        Act.SEND_OUTPUT: stage.send_output,
        Act.RECEIVE_GRADIENT: stage.receive_gradient,
        Act.BACKWARD: stage.backward,
        Act.SEND_GRADIENT: stage.send_gradient,
    }[step.act]
    return act(step.micro)


def _part(value: Any, at: int, parts: int) -> Any:
    """A micro-batch of an argument."""
    if not hasattr(value, "shape"):
        return value
    each = value.shape[0] // parts
    begin, end = [0] * value.ndim, list(value.shape)
    begin[0], end[0] = at * each, (at + 1) * each
    if not isinstance(value, mindspore.Tensor):
        return value[begin[0] : end[0]]
    return ops.strided_slice(value, begin, end, [1] * value.ndim)


class ScheduleGPipe(_Schedule):
    def _order(self, rank: int, ranks: int, chunks: int, micros: int) -> list[Step]:
        return all_forward_first(rank, ranks, micros)


class Schedule1F1B(_Schedule):
    def _order(self, rank: int, ranks: int, chunks: int, micros: int) -> list[Step]:
        return one_forward_one_backward(rank, ranks, micros)


class ScheduleInterleaved1F1B(_Schedule):
    def __init__(
        self,
        stages: Sequence[PipelineStage],
        micro_batch_num: int,
        *,
        overlap_p2p: bool = False,
        overlap_b_f: bool = False,
        swap: bool = False,
        **more: Any,
    ) -> None:
        if overlap_b_f or overlap_p2p:
            raise NotInStandIn("swapconf's stand-in for hyper_parallel overlaps no passes and no transfers")
        super().__init__(stages, micro_batch_num, swap, **more)

    def _order(self, rank: int, ranks: int, chunks: int, micros: int) -> list[Step]:
        return interleaved(rank, ranks, chunks, micros)
