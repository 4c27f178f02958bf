"""Sequences: attention and state spaces of many kinds, quantisers, einops."""

from __future__ import annotations

import torch

from . import Inputs, Use, evaluated, item, size, stepped, trained


def _tokens(count: int = 20) -> Inputs:
    return lambda n: (torch.randint(count, (2, size(8, n))),)


def _features(width: int = 16) -> Inputs:
    return lambda n: (torch.randn(2, size(8, n), width),)


@item("x-transformers")
def decoder() -> Use:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=16, depth=1, heads=2, attn_dim_head=8)
    return evaluated(
        TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=layers), _tokens()
    )


@item("x-transformers")
def rotary_decoder_step() -> Use:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=16, depth=1, heads=2, attn_dim_head=8, rotary_pos_emb=True, ff_glu=True)
    net = TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=layers)
    model = AutoregressiveWrapper(net)
    return stepped(
        model,
        torch.optim.Adam(model.parameters(), 1e-3),
        lambda net, tokens: net(tokens),
        _tokens(),
        clip=0.5,
    )


@item("x-transformers")
def generation() -> Use:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=16, depth=1, heads=2, attn_dim_head=8)
    net = TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=layers)
    model = AutoregressiveWrapper(net).eval()

    def generate(prompt: torch.Tensor) -> torch.Tensor:
        return model.generate(prompt, 3, temperature=1.0)

    return Use("eval", generate, lambda n: (torch.randint(20, (1, size(4, n))),), (model,))


@item("x-transformers")
def masked_encoder() -> Use:
    from x_transformers import Encoder, TransformerWrapper

    layers = Encoder(
        dim=16, depth=1, heads=2, attn_dim_head=8, use_rmsnorm=True, alibi_pos_bias=True
    )
    model = TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=layers)

    def encode(tokens: torch.Tensor) -> torch.Tensor:
        return model(tokens, mask=tokens != 0, return_embeddings=True)

    return Use("train", encode, _tokens(), (model,))


@item("local-attention")
def local_attention() -> Use:
    from local_attention import LocalAttention

    model = LocalAttention(window_size=4, causal=True, dim=8, autopad=True)
    return evaluated(model, lambda n: tuple(torch.randn(2, 2, size(10, n), 8) for _ in range(3)))


@item("local-attention")
def local_transformer_step() -> Use:
    from local_attention import LocalTransformer

    model = LocalTransformer(
        num_tokens=20, dim=16, depth=1, max_seq_len=16, heads=2, dim_head=8, causal=True,
        local_attn_window_size=4,
    )  # fmt: skip
    return stepped(
        model,
        torch.optim.Adam(model.parameters(), 1e-3),
        lambda net, tokens: net(tokens, return_loss=True),
        _tokens(),
    )


@item("vector-quantize-pytorch")
def vector_quantiser() -> Use:
    from vector_quantize_pytorch import VectorQuantize

    return trained(VectorQuantize(dim=8, codebook_size=16, decay=0.8), _features(8))


@item("vector-quantize-pytorch")
def quantiser_with_dead_codes() -> Use:
    from vector_quantize_pytorch import VectorQuantize

    model = VectorQuantize(8, codebook_size=16, kmeans_init=True, threshold_ema_dead_code=2)
    return trained(model, _features(8))


@item("vector-quantize-pytorch")
def residual_quantiser() -> Use:
    from vector_quantize_pytorch import ResidualVQ

    model = ResidualVQ(dim=8, num_quantizers=2, codebook_size=16, quantize_dropout=True)
    return trained(model, _features(8))


@item("vector-quantize-pytorch")
def finite_scalars() -> Use:
    from vector_quantize_pytorch import FSQ

    return trained(
        FSQ(levels=[5, 5]), lambda n: (torch.randn(2, size(8, n), 2, requires_grad=True),)
    )


@item("vector-quantize-pytorch")
def lookup_free_quantiser() -> Use:
    from vector_quantize_pytorch import LFQ

    model = LFQ(codebook_size=16, dim=4, entropy_loss_weight=0.1)
    return trained(model, lambda n: (torch.randn(2, size(8, n), 4, requires_grad=True),))


@item("einops")
def layers() -> Use:
    from einops.layers.torch import Rearrange, Reduce

    model = torch.nn.Sequential(
        Rearrange("b (h p) c -> b h (p c)", p=2),
        torch.nn.Linear(8, 4),
        Reduce("b h c -> b c", "mean"),
    )
    return trained(model, lambda n: (torch.randn(2, 8 if n < 2 else 12, 4),))


@item("einops")
def packed_sequences() -> Use:
    from einops import pack, repeat, unpack

    def both(one: torch.Tensor, other: torch.Tensor) -> object:
        packed, shapes = pack([one, repeat(other, "b c -> b h c", h=3)], "b * c")
        return unpack(packed * 2, shapes, "b * c")

    return Use("eval", both, lambda n: (torch.randn(2, size(3, n), 4), torch.randn(2, 4)))


@item("rotary-embedding-torch")
def rotary_embedding() -> Use:
    from rotary_embedding_torch import RotaryEmbedding

    rotary = RotaryEmbedding(dim=8)

    def rotated(queries: torch.Tensor, keys: torch.Tensor) -> object:
        return rotary.rotate_queries_or_keys(queries), rotary.rotate_queries_or_keys(keys)

    return Use(
        "eval",
        rotated,
        lambda n: (torch.randn(1, 2, size(6, n), 8), torch.randn(1, 2, size(6, n), 8)),
        (rotary,),
    )


@item("performer-pytorch")
def fast_attention() -> Use:
    from performer_pytorch import FastAttention

    model = FastAttention(dim_heads=8, nb_features=16, causal=False)
    return evaluated(model, lambda n: tuple(torch.randn(1, 2, size(6, n), 8) for _ in range(3)))


@item("performer-pytorch")
def performer() -> Use:
    from performer_pytorch import Performer

    return trained(Performer(dim=16, depth=1, heads=2, dim_head=8, nb_features=16), _features())


@item("nystrom-attention")
def nystrom_attention() -> Use:
    from nystrom_attention import NystromAttention

    model = NystromAttention(dim=16, dim_head=8, heads=2, num_landmarks=4, pinv_iterations=3)
    return evaluated(model, _features())


@item("linear-attention-transformer")
def linear_attention() -> Use:
    from linear_attention_transformer import LinearAttentionTransformer

    return trained(
        LinearAttentionTransformer(dim=16, heads=2, depth=1, max_seq_len=16), _features()
    )


@item("reformer-pytorch")
def hashed_attention() -> Use:
    from reformer_pytorch import LSHSelfAttention

    model = LSHSelfAttention(dim=16, heads=2, bucket_size=4, n_hashes=2)
    return evaluated(model, lambda n: (torch.randn(1, 16, 16),))


@item("mambapy")
def mamba() -> Use:
    from mambapy.mamba import Mamba, MambaConfig

    return trained(Mamba(MambaConfig(d_model=8, n_layers=1, d_state=4)), _features(8))


@item("mambapy")
def mamba_one_step_at_a_time() -> Use:
    from mambapy.mamba import MambaBlock, MambaConfig

    config = MambaConfig(d_model=8, n_layers=1, d_state=4)
    block = MambaBlock(config)

    def steps(x: torch.Tensor) -> torch.Tensor:
        cache = (None, torch.zeros(x.shape[0], config.d_inner, config.d_conv - 1))
        outputs = []
        for part in x.unbind(1):
            y, cache = block.step(part, cache)
            outputs.append(y)
        return torch.stack(outputs, 1)

    return Use("eval", steps, lambda n: (torch.randn(2, 3, 8),), (block,))


@item("entmax")
def sparse_attention() -> Use:
    from entmax import entmax15, sparsemax

    def both(scores: torch.Tensor) -> object:
        return sparsemax(scores, dim=-1), entmax15(scores, dim=-1)

    return Use("train", both, lambda n: (torch.randn(size(4, n), 6, requires_grad=True),))


@item("entmax")
def sparse_loss_step() -> Use:
    from entmax import Entmax15Loss

    model, loss = torch.nn.Linear(6, 5), Entmax15Loss()
    return stepped(
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        lambda net, x, labels: loss(net(x), labels),
        lambda n: (torch.randn(8, 6), torch.randint(5, (8,))),
    )


@item("snntorch")
def spiking_neurons() -> Use:
    import snntorch

    linear, neurons = torch.nn.Linear(6, 4), snntorch.Leaky(beta=0.9)

    def run(x: torch.Tensor) -> object:
        memory, spikes = neurons.init_leaky(), []
        for _ in range(3):
            spike, memory = neurons(linear(x), memory)
            spikes.append(spike)
        return torch.stack(spikes), memory

    return Use("train", run, lambda n: (torch.randn(size(3, n), 6),), (linear, neurons))


@item("spikingjelly")
def integrating_neurons() -> Use:
    from spikingjelly.activation_based import functional, layer, neuron

    model = torch.nn.Sequential(layer.Linear(6, 4), neuron.LIFNode(tau=2.0))

    def run(x: torch.Tensor) -> torch.Tensor:
        functional.reset_net(model)
        return torch.stack([model(x) for _ in range(3)]).mean(0)

    return Use("train", run, lambda n: (torch.randn(size(3, n), 6),), (model,))


@item("fairscale")
def checkpointed_layers() -> Use:
    from fairscale.nn import checkpoint_wrapper

    model = torch.nn.Sequential(checkpoint_wrapper(torch.nn.Linear(6, 6)), torch.nn.ReLU())
    return trained(model, lambda n: (torch.randn(size(3, n), 6, requires_grad=True),))
