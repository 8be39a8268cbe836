"""PEAK -> WORDS: what would lower the peak of a rank, and what cannot."""

from __future__ import annotations

from swapconf.memory.peak import Peak, PeakPart
from swapconf.words.phrases import joined, mark, phrase
from swapconf.words.units import show_bytes

PASSES = {"forward": mark("forward pass"), "backward": mark("backward pass"), "optimizer": mark("optimizer")}
_NOTHING = 0.95  # of the peak: where swap and recompute leave more than this, they do not help
_MUCH = 0.25  # of the peak: what is named as its cause
STATE = (PeakPart.WEIGHTS, PeakPart.OPTIMIZER, PeakPart.GRADIENTS)


def peak_line(peak: Peak) -> str:
    """In which pass the peak is, and what the largest part of it is."""
    largest, used = peak.at.largest, show_bytes(peak.at.used_bytes)
    if largest is None:
        return phrase("no device memory was used")
    part, size = phrase(largest.part.value), show_bytes(largest.size_bytes)
    if not peak.at.when:
        return phrase("the largest part of the peak of {used}: {part}, {size}", used=used, part=part, size=size)
    return phrase(
        "the peak of {used} is in the {when}; its largest part: {part}, {size}",
        used=used,
        when=phrase(PASSES[peak.at.when]),
        part=part,
        size=size,
    )


def is_out_of_reach(peak: Peak) -> bool:
    """Whether no swap and no recompute of layers lowers the peak by more than a little."""
    return bool(peak.at.when) and peak.rest.used_bytes > _NOTHING * peak.at.used_bytes


def reach(peak: Peak) -> str:
    """What swap and recompute of layers can do about the peak, and what they cannot. "" where the trace does not
    tell."""
    if not peak.at.when or not peak.at.used_bytes:
        return ""
    rest, used, loss = show_bytes(peak.rest.used_bytes), show_bytes(peak.at.used_bytes), peak.at.bytes_of(PeakPart.LOSS)
    if peak.is_grown:
        rest = phrase("about {size}", size=rest)
    if peak.at.when == "optimizer" and is_out_of_reach(peak):
        return phrase("the peak is the optimizer's; swap and recompute of layers cannot lower it")
    if loss > _MUCH * peak.at.used_bytes:
        return phrase(
            "head and loss hold {size} of {used}; no swap or recompute of layers lowers that, or gets below {rest}",
            size=show_bytes(loss),
            used=used,
            rest=rest,
        )
    if is_out_of_reach(peak):
        return phrase("no swap or recompute of layers gets it below {rest}", rest=rest)
    return phrase("swap and recompute of layers can lower the peak of {used}, at best to {rest}", used=used, rest=rest)


def remedy(peak: Peak, most_bytes: int | None = None) -> str:
    """What helps where swap and recompute of layers do not, or not much; else "". ``most_bytes``: what may be used,
    where that is known."""
    moment = peak.rest
    of_loss = max(found.bytes_of(PeakPart.LOSS) for found in (peak.at, moment)) > _MUCH * peak.at.used_bytes
    is_too_much = most_bytes is not None and moment.used_bytes > most_bytes
    if not peak.at.when or not (of_loss or is_too_much or is_out_of_reach(peak)):
        return ""
    if not of_loss and (moment.when == "optimizer" or moment.bytes_of(*STATE) > moment.used_bytes / 2):
        if peak.is_native:
            return phrase(
                "what helps: parallelism.data_parallel_shard, more tensor_parallel, fewer layers in the stage"
            )
        if peak.host_optimizer_bytes:
            return phrase(
                "what helps: parallel.enable_parallel_optimizer, more model_parallel, fewer layers in the stage"
            )
        return phrase(
            "what helps: parallel.enable_parallel_optimizer, more model_parallel, fewer layers in the stage, "
            "or optimizer.swap, which keeps the optimizer's state on the host"
        )
    if peak.is_native:
        return phrase(
            "what helps: more tensor_parallel or context_parallel, a shorter sequence, a smaller local_batch_size"
        )
    return phrase("what helps: more model_parallel or context_parallel, a shorter sequence, a smaller batch_size")


def advice(peak: Peak, most_bytes: int | None = None) -> str:
    """`reach`, and what else would help. ``most_bytes``: what may be used, where that is known."""
    return joined("; ", [line for line in (reach(peak), remedy(peak, most_bytes)) if line])


def host_line(state: int, host_bytes: int) -> str:
    """What the host memory is, where it is not only what was swapped; else "". ``state``: bytes of the optimizer."""
    if not host_bytes or not state:
        return ""
    if state > 0.99 * host_bytes:
        return phrase("the host memory is the optimizer's state, not activations")
    return phrase(
        "{state} of the host memory of {size} is the optimizer's state, the rest are activations",
        state=show_bytes(state),
        size=show_bytes(host_bytes),
    )
