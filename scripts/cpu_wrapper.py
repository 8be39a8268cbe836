"""A training step for machines without an accelerator.

mindformers' ``MFTrainOneStepCell`` asks Ascend's ``NPUGetFloatStatusV2`` whether a gradient overflowed. That operator
has no CPU kernel, so on the CPU the question is put to the gradients themselves. Importing this module registers the
cell; a YAML then names it: ``runner_wrapper: {type: CpuTrainOneStepCell}``.
"""

from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
from mindformers.wrapper import MFTrainOneStepCell
from mindspore import ops

has_overflow = ops.MultitypeFuncGraph("has_overflow")


@has_overflow.register("Tensor")
def _tensor_has_overflow(gradient):
    return ops.logical_not(ops.isfinite(gradient)).any()


@MindFormerRegister.register(MindFormerModuleType.WRAPPER)
class CpuTrainOneStepCell(MFTrainOneStepCell):
    """``MFTrainOneStepCell`` whose overflow check runs on any device."""

    def get_overflow_status(self, status, compute_output):
        """True when any gradient holds an infinity or a NaN; ``status`` belongs to the Ascend operator."""
        return ops.stack(self.hyper_map(has_overflow, compute_output)).any()
