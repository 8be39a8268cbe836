"""CELLS: what mindformers calls the parts of a decoder layer, and the operators of their functions.

All families of mcore are built of the same cells; those of legacy models have names of their own. Whoever has to tell
one cell from another, as what-if does, takes its name from here, so that this is the whole list of what a model must be
built of to be predicted in MindSpore's own order. Source: mindformers 1.9.0, parallel_core/training_graph/transformer,
and for legacy models models/llama and models/glm2.
"""

from __future__ import annotations

# --- mcore: cells right below a layer ---------------------------------------------------------------------------------

INPUT_NORM, MLP_NORM = "input_layernorm", "pre_mlp_layernorm"
SELF_ATTENTION, MLP = "self_attention", "mlp"

# --- mcore: below self attention --------------------------------------------------------------------------------------

QKV, PROJECTION = "linear_qkv", "linear_proj"
KEY_VALUE_UP = "linear_kv_up_proj"  # of latent attention
QUERY_NORM, KEY_NORM = "q_layernorm", "k_layernorm"
CORE_ATTENTION = "core_attention"  # is handed query, key and value
LATENT_ATTENTION = "MLASelfAttention"  # the class

# --- mcore: below an MLP ----------------------------------------------------------------------------------------------

FIRST_LINEAR, SECOND_LINEAR = "linear_fc1", "linear_fc2"
EXPERTS, SHARED_EXPERTS, ROUTER = "experts", "shared_experts", "router"
ACTIVATION = "activation_func"
MORPHED = "morphed_forward"  # the operator of a Linear, whose function has a Reshape at its end
MORPHED_WITH_BIAS = f"{MORPHED}_with_bias"  # instead of it where the Linear adds a bias
BIAS = "add"  # the operator that does
ROUTER_DENSITY, ROUTER_PRODUCT, ROUTER_SCALED = "div", "mul", "mul_dp"  # operators of a router
TRANSPOSE, SECOND_TRANSPOSE = "transpose", "transpose2"  # operators around experts
FIRST_VIEW = "reshape"  # the operator with which a Linear begins, and of an MLP what its first Linear hands on
LINEARS = ("linear_", "eh_proj")  # how the names of Linears begin; eh_proj: of a layer for multi-token prediction

# --- mcore: around layers ---------------------------------------------------------------------------------------------

PREDICTED_LAYER = "transformer_layer"  # the decoder layer in a layer for multi-token prediction
OUTPUT_LAYER = "output_layer"
FINAL_NORM = "final_layernorm"

LAYER_CLASSES = ("TransformerLayer", "PredictionLayer")  # ends of the names of classes
# Ends of the classes whose ``construct`` returns a tuple.
RETURN_TUPLES = ("ParallelLinear", "SelfAttention", "MLP", "MLPInterleaved", "MoELayer", "Router", *LAYER_CLASSES)

NORM = "norm"  # stands in the names of norms, of legacy models, too

# --- legacy -----------------------------------------------------------------------------------------------------------

LAYERS = "layers-CellList"  # with mcore, too: the list of layers, as scopes name it
KEY_AND_VALUE = ("wk", "wv")  # Linears of Llama
DENSE = "dense"  # the Linear behind attention of GLM
MATMUL = "matmul"  # the operator of a Linear
ROTARY = "apply_rotary"

# The Transposes of GLM's attention: of key and value, else of the query; behind the rotary embedding, else in front.
TRANSPOSES = {
    (False, False): TRANSPOSE,
    (False, True): "transpose_back",
    (True, False): "kv_transpose",
    (True, True): "kv_transpose_back",
}
