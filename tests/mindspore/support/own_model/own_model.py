"""A model as a user writes one for `--register-path`: a decoder layer whose cells have none of mindformers' names.

Attention without rotary embeddings: what its heads hand out is scaled by a weight of the layer. The network behind it
keeps its gate apart from its two products. [mindspore, mindformers]
"""

from __future__ import annotations

import math
from typing import Any

from mindformers.core.loss import CrossEntropyLoss
from mindformers.models.llama.llama import LlamaPreTrainedModel
from mindformers.models.llama.llama_layer import LlamaEmbedding, LlamaRMSNorm
from mindformers.models.utils import lazy_inline
from mindformers.modules.flash_attention import FlashAttention
from mindformers.modules.layers import Linear
from mindformers.modules.transformer import LowerTriangularMaskWithDynamic
from mindformers.parallel_core.training_graph.transformer.utils import LayerSetting
from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
from mindspore import Parameter, nn
from mindspore.common import dtype as mstype
from mindspore.common.initializer import initializer
from mindspore.ops import operations as P


def _product(config: Any, width: int, out: int) -> Any:
    return Linear(
        width, out, has_bias=False, compute_dtype=config.compute_dtype, param_init_type=config.param_init_type
    )


class TokenMixer(nn.Cell):
    """Attention. ``head_gain``: a weight of every channel, which scales what the heads hand out."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        parallel = config.parallel_config
        dp, mp = parallel.data_parallel, parallel.model_parallel
        self.heads, self.width = config.num_heads, config.hidden_size
        self.head_width = self.width // self.heads
        self.in_query = _product(config, self.width, self.width)
        self.in_key = _product(config, self.width, self.width)
        self.in_value = _product(config, self.width, self.width)
        self.out_mix = _product(config, self.width, self.width)
        self.sdpa = FlashAttention(
            head_num=self.heads,
            next_tokens=0,
            scale_value=1.0 / math.sqrt(self.head_width),
            input_layout="BNSD",
            sparse_mode=0,
            use_attention_mask=True,
        )
        self.head_gain = Parameter(initializer("ones", (self.width,), config.param_init_type), name="head_gain")
        self.split_heads = P.Reshape()
        self.to_heads = P.Transpose().shard(((dp, 1, mp, 1),))
        self.from_heads = P.Transpose().shard(((dp, mp, 1, 1),))
        self.as_computed = P.Cast()
        self.amplify = P.Mul().shard(((dp, 1, mp), (mp,)))
        for product in (self.in_query, self.in_key, self.in_value):
            product.shard(((dp, 1), (mp, 1)))
        self.out_mix.shard(((dp, mp), (1, mp)))
        self.sdpa.shard(parallel)

    def construct(self, states: Any, mask: Any) -> Any:
        batch, length, _ = states.shape
        shape = (batch, length, self.heads, self.head_width)
        query = self.to_heads(self.split_heads(self.in_query(states), shape), (0, 2, 1, 3))
        key = self.to_heads(self.split_heads(self.in_key(states), shape), (0, 2, 1, 3))
        value = self.to_heads(self.split_heads(self.in_value(states), shape), (0, 2, 1, 3))
        mixed = self.from_heads(self.sdpa(query, key, value, mask), (0, 2, 1, 3))
        mixed = self.split_heads(mixed, (batch, length, self.width))
        mixed = self.amplify(mixed, self.as_computed(self.head_gain, mixed.dtype))
        return self.out_mix(mixed)


class ChannelMixer(nn.Cell):
    """The gated network."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        parallel = config.parallel_config
        dp, mp = parallel.data_parallel, parallel.model_parallel
        self.gate_proj = _product(config, config.hidden_size, config.intermediate_size)
        self.up_proj = _product(config, config.hidden_size, config.intermediate_size)
        self.down_proj = _product(config, config.intermediate_size, config.hidden_size)
        self.squash = P.Sigmoid().shard(((dp, 1, mp),))
        self.gated = P.Mul().shard(((dp, 1, mp), (dp, 1, mp)))
        for product in (self.gate_proj, self.up_proj):
            product.shard(((dp, 1), (mp, 1)))
        self.down_proj.shard(((dp, mp), (1, mp)))

    def construct(self, states: Any) -> Any:
        return self.down_proj(self.gated(self.squash(self.gate_proj(states)), self.up_proj(states)))


class OwnBlock(nn.Cell):
    """A decoder layer."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        parallel = config.parallel_config
        dp = parallel.data_parallel
        self.pre_mix = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps, compute_type=config.layernorm_compute_type)
        self.mixer = TokenMixer(config)
        self.pre_channel = LlamaRMSNorm(
            config.hidden_size, config.rms_norm_eps, compute_type=config.layernorm_compute_type
        )
        self.channel = ChannelMixer(config)
        self.residual = P.Add().shard(((dp, 1, 1), (dp, 1, 1)))
        for norm in (self.pre_mix, self.pre_channel):
            norm.shard((dp, 1, 1))

    def construct(self, states: Any, mask: Any) -> Any:
        states = self.residual(states, self.mixer(self.pre_mix(states), mask))
        return self.residual(states, self.channel(self.pre_channel(states)))


@MindFormerRegister.register(MindFormerModuleType.MODELS)
class OwnForCausalLM(LlamaPreTrainedModel):
    """The model with its loss."""

    @lazy_inline
    def __init__(self, config: Any = None) -> None:
        super().__init__(config, auto_prefix=True)
        parallel = config.parallel_config
        dp, mp, stages = parallel.data_parallel, parallel.model_parallel, parallel.pipeline_stage
        self.pad_token_id, self.computed = config.pad_token_id, config.compute_dtype
        self.embed = LlamaEmbedding(config.vocab_size, config.hidden_size, param_init_type=config.param_init_type)
        self.mask = LowerTriangularMaskWithDynamic(
            seq_length=config.seq_length,
            batch_size=config.batch_size * dp,
            compute_type=config.compute_dtype,
            pad_token_id=config.pad_token_id,
            use_flash_attention=True,
        )
        self.layers = nn.CellList()
        setting = LayerSetting(config.num_layers, config.offset, parallel, config.pp_interleave_num)
        for index in range(config.num_layers):
            block = OwnBlock(config)
            setting(block, index)
            self.layers.append(block)
        self.last_norm = LlamaRMSNorm(
            config.hidden_size, config.rms_norm_eps, compute_type=config.layernorm_compute_type
        )
        self.head = _product(config, config.hidden_size, config.vocab_size)
        self.loss = CrossEntropyLoss(parallel_config=parallel)
        self.take = P.StridedSlice().shard(((dp, 1),))
        self.differs = P.NotEqual().shard(((dp, 1), ()))
        self.reshape, self.cast = P.Reshape(), P.Cast()
        self.embed.pipeline_stage = 0
        self.last_norm.pipeline_stage = self.head.pipeline_stage = stages - 1
        self.embed.shard(parallel)
        self.mask.shard(parallel)
        self.last_norm.shard((dp, 1, 1))
        self.head.shard(strategy_matmul=((dp, 1), (1, 1)) if parallel.vocab_emb_dp else ((dp, 1), (mp, 1)))

    def construct(self, input_ids: Any, labels: Any = None) -> Any:
        batch, length = input_ids.shape
        tokens = self.take(input_ids, (0, 0), (batch, length - 1), (1, 1))
        labels = self.take(input_ids, (0, 1), (batch, length), (1, 1))
        states, mask = self.cast(self.embed(tokens), self.computed), self.mask(tokens)
        for block in self.layers:
            states = block(states, mask)
        logits = self.head(self.last_norm(states))
        counted = self.cast(self.differs(tokens, self.pad_token_id), mstype.float32)
        return self.loss(
            self.cast(self.reshape(logits, (-1, logits.shape[-1])), mstype.float32),
            self.reshape(labels, (-1,)),
            self.reshape(counted, (-1,)),
        )
