"""The rules of a what-if, apart from it: their pages are shown without loading what it computes with."""

from __future__ import annotations

# (severity, manual page) by name
RULES: dict[str, tuple[str, str]] = {
    "trace-unrecorded": ("note", "A what-if from a trace that another program left, without the record (run.json) of "
                                 "the settings of its run: only what the trace itself shows is compared with the "
                                 "YAML, so it can still be of another vocabulary or optimizer."),
    "pool-unexplained": ("note", "A what-if from a trace in which MindSpore's pool does not follow the rules that are "
                                 "known of it (docs/evidence/pool.md), as with memory_optimize_level O1: the peak with "
                                 "fragments and the reserved memory of the prediction are approximate. The used peak "
                                 "does not depend on the pool."),
    "entry-saves-nothing": ("warning", "By a what-if, the peak is no lower with this entry of the YAML than without "
                                       "it, although it moves or recomputes tensors: the peak is at a moment when "
                                       "they are not in memory anyway, or their device copies are kept."),
    "prefetch-underflow": ("error", "By a what-if, MindSpore 2.9.0 dies while it compiles: it checks backward_prefetch "
                                    "against a position that counts the copies, and then subtracts it from one that "
                                    "does not, which falls below zero. The rule was measured on a bare training cell; "
                                    "where the range begins and ends is predicted."),
    "copies-never-read": ("warning", "By a what-if, tensors are copied to the host and never back: the layer itself "
                                     "recomputes a Reshape (mcore's Linears and MLP do), so MindSpore 2.9.0 takes its "
                                     "input for needed, and finds only after it has placed the copy that nothing "
                                     "reads it. The copies take the link and keep the device memory until they are "
                                     "done."),
    "entry-costs-memory": ("warning", "By a what-if, the peak is higher with this entry of the YAML than without it: "
                                      "with a large prefetch two copies of a tensor live on the device at once."),
}
