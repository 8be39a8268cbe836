"""RULES of workspace for a mixture of experts, and for products that communicate: data for `workspace_rules`."""

from __future__ import annotations

from swapconf.memory.cann.experts import permute_bytes, route_bytes, route_v2_bytes, system_bytes
from swapconf.memory.cann.fused import (
    combine_bytes,
    dispatch_bytes,
    gather_product_bytes,
    mega_bytes,
    mega_gradient_bytes,
    scatter_product_bytes,
)
from swapconf.memory.workspace_family import Family
from swapconf.trace.workspace import Basis, Rule

# kernels of hyper-parallel, by their operators and by the names that its runner has for them in PyNative mode
MEGA = frozenset({"HyperMegaMoe", "MegaMoe", "MoeFwd"})
MEGA_GRADIENT = frozenset({"HyperMegaMoeGrad", "MegaMoeGrad", "MoeBwd"})
_MEGA_SOURCE = (
    "hyper-parallel/hyper_parallel/core/multicore/ops/{name}/op_host/{name}_tiling.cpp:108 (03df4fb), a figure that no "
    "shape changes. Measured: {measured} B as allotted (910B3, CANN 9.0, MindSpore 2.10; its "
    "guide mega_kernel_memory_estimation_design_and_validation_report.md)"
)

EXPERTS = (
    Family(
        Rule(
            name="permute",
            operators="MoeTokenPermute",
            basis=Basis.PUBLIC,
            formula="16 MiB + 24 bytes for each choice of an expert + 64 for each of 48 cores",
            source="ops-transformer/moe/moe_token_permute/op_host/moe_token_permute_tiling.cpp:440",
        ),
        frozenset({"MoeTokenPermute"}),
        permute_bytes,
    ),
    Family(
        Rule(
            name="route",
            operators="MoeInitRouting",
            basis=Basis.PUBLIC,
            formula="16 MiB + 28 bytes for each choice of an expert + 64 for each of 48 cores",
            source="ops-transformer/moe/moe_init_routing/op_host/moe_init_routing_tiling.cpp:327-337",
        ),
        frozenset({"MoeInitRouting"}),
        route_bytes,
    ),
    Family(
        Rule(
            name="route 2",
            operators="MoeInitRoutingV2",
            basis=Basis.PUBLIC,
            formula="16 MiB + 32 bytes for each choice of an expert + 8 for each of 48 cores",
            source="ops-transformer/moe/moe_init_routing_v2/op_host/moe_init_routing_v2_tiling.cpp:417",
        ),
        frozenset({"MoeInitRoutingV2"}),
        route_v2_bytes,
    ),
    Family(
        Rule(
            name="unpermute",
            operators="MoeTokenUnpermute, MoeFinalizeRouting, MoeGatingTopK, MoeGatingTopKSoftmax, and gradients of "
            "the first two and of MoeTokenPermute",
            basis=Basis.PUBLIC,
            formula="16 MiB (MoeGatingTopKSoftmax: at most)",
            source="ops-transformer/moe/moe_token_unpermute/op_host/moe_token_unpermute_tiling.cpp:304, "
            "moe_token_unpermute_grad_tiling.cpp:335, moe_token_permute_grad_tiling.cpp:132, "
            "moe_finalize_routing_v2_tiling_membase.cpp:22, moe_init_routing_v2_grad_tiling_base.cpp:245, "
            "moe_gating_top_k_tiling.cpp:485, moe_gating_top_k_softmax_tiling_perf.cpp:201 (0)",
        ),
        frozenset(
            {
                *("MoeFinalizeRouting", "MoeFinalizeRoutingV2", "MoeGatingTopK", "MoeGatingTopKSoftmax"),
                *("MoeInitRoutingV2Grad", "MoeTokenPermuteGrad", "MoeTokenUnpermute", "MoeTokenUnpermuteGrad"),
            }
        ),
        system_bytes,
    ),
    Family(
        Rule(
            name="dispatch",
            operators="MoeDistributeDispatch, MoeDistributeDispatchV2",
            basis=Basis.PUBLIC,
            formula="16 MiB + 1 MiB",
            source="ops-transformer/mc2/moe_distribute_dispatch/op_host/op_tiling/"
            "moe_distribute_dispatch_tiling.cpp:740, moe_distribute_dispatch_v2_tiling.cpp:1361",
        ),
        frozenset({"MoeDistributeDispatch", "MoeDistributeDispatchV2"}),
        dispatch_bytes,
    ),
    Family(
        Rule(
            name="combine",
            operators="MoeDistributeCombine, MoeDistributeCombineV2",
            basis=Basis.PUBLIC,
            formula="16 MiB + 8 bytes for each of 512 experts, the most that there may be",
            source="ops-transformer/mc2/moe_distribute_combine/op_host/op_tiling/"
            "moe_distribute_combine_tiling.cpp:325, moe_distribute_combine_v2_tiling.cpp:1365",
        ),
        frozenset({"MoeDistributeCombine", "MoeDistributeCombineV2"}),
        combine_bytes,
    ),
    Family(
        Rule(
            name="mega",
            operators="MegaMoe, HyperMegaMoe of hyper-parallel (MoeFwd)",
            basis=Basis.PUBLIC,
            formula="95,420,928 bytes; ACLSHMEM's symmetric heap comes on top, in no pool",
            source=_MEGA_SOURCE.format(name="hyper_mega_moe", measured="95,421,440"),
        ),
        MEGA,
        mega_bytes,
    ),
    Family(
        Rule(
            name="mega gradient",
            operators="MegaMoeGrad, HyperMegaMoeGrad of hyper-parallel (MoeBwd)",
            basis=Basis.PUBLIC,
            formula="99,615,232 bytes; ACLSHMEM's symmetric heap comes on top, in no pool",
            source=_MEGA_SOURCE.format(name="hyper_mega_moe_grad", measured="99,615,744"),
        ),
        MEGA_GRADIENT,
        mega_gradient_bytes,
    ),
    Family(
        Rule(
            name="gather product",
            operators="AllGatherMatmul",
            basis=Basis.PUBLIC,
            formula="16 MiB + the gathered rows + the weight in blocks of 256 bytes + n x 4 bytes for a bias: a bound, "
            "where the gathered rows are handed out or there is no bias",
            source="ops-transformer/mc2/all_gather_matmul/op_host/op_tiling/all_gather_matmul_tiling_base.cpp:438-506 "
            "(3a280bc)",
        ),
        frozenset({"AllGatherMatmul"}),
        gather_product_bytes,
    ),
    Family(
        Rule(
            name="scatter product",
            operators="MatmulReduceScatter",
            basis=Basis.PUBLIC,
            formula="16 MiB + the whole product + the weight in blocks of 256 bytes + n x 4 bytes for a bias, a bound "
            "where there is none",
            source="ops-transformer/mc2/matmul_reduce_scatter/op_host/op_tiling/"
            "matmul_reduce_scatter_tiling.cpp:604-669 (3a280bc)",
        ),
        frozenset({"MatmulReduceScatter"}),
        scatter_product_bytes,
    ),
)
