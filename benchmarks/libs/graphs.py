"""Graphs of torch_geometric, in pure torch; atoms and symmetries: torchani, e3nn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import Inputs, Use, evaluated, item, size, stepped, trained


def _graph(features: int = 6) -> Inputs:
    """Features of nodes, and edges among them."""
    return lambda n: (torch.randn(10, features), torch.randint(10, (2, size(24, n))))


def _batched() -> Inputs:
    return lambda n: (*_graph()(n), torch.tensor([0] * 5 + [1] * 5))


@item("torch_geometric")
def gcn() -> Use:
    from torch_geometric.nn import GCNConv

    return trained(GCNConv(6, 4), _graph())


@item("torch_geometric")
def cached_gcn() -> Use:
    from torch_geometric.nn import GCNConv

    edges = torch.randint(10, (2, 24))
    return evaluated(GCNConv(6, 4, cached=True), lambda n: (torch.randn(10, 6), edges))


@item("torch_geometric")
def gat() -> Use:
    from torch_geometric.nn import GATConv

    return trained(GATConv(6, 4, heads=2, dropout=0.1), _graph())


@item("torch_geometric")
def sage() -> Use:
    from torch_geometric.nn import SAGEConv

    return trained(SAGEConv(6, 4), _graph())


@item("torch_geometric")
def isomorphism_network() -> Use:
    from torch_geometric.nn import GINConv

    return trained(GINConv(torch.nn.Linear(6, 4)), _graph())


@item("torch_geometric")
def transformer_convolution() -> Use:
    from torch_geometric.nn import TransformerConv

    return evaluated(TransformerConv(6, 4, heads=2), _graph())


@item("torch_geometric")
def edge_convolution() -> Use:
    from torch_geometric.nn import EdgeConv

    return evaluated(EdgeConv(torch.nn.Linear(12, 4)), _graph())


@item("torch_geometric")
def chebyshev() -> Use:
    from torch_geometric.nn import ChebConv

    return evaluated(ChebConv(6, 4, K=3), _graph())


@item("torch_geometric")
def top_k_pooling() -> Use:
    from torch_geometric.nn import TopKPooling

    return evaluated(TopKPooling(6, ratio=0.5), _graph())


@item("torch_geometric")
def mean_of_each_graph() -> Use:
    from torch_geometric.nn import global_mean_pool

    return Use("eval", global_mean_pool, lambda n: (_batched()(n)[0], _batched()(n)[2]))


@item("torch_geometric")
def norm_of_each_graph() -> Use:
    from torch_geometric.nn import GraphNorm

    return trained(GraphNorm(6), lambda n: (_batched()(n)[0], _batched()(n)[2]))


@item("torch_geometric")
def undirected_edges() -> Use:
    from torch_geometric.utils import add_self_loops, to_undirected

    def prepared(edges: torch.Tensor) -> torch.Tensor:
        return add_self_loops(to_undirected(edges))[0]

    return Use("eval", prepared, lambda n: (torch.randint(10, (2, size(12, n))),))


@item("torch_geometric")
def dropped_edges() -> Use:
    from torch_geometric.utils import dropout_edge

    return Use("eval", dropout_edge, lambda n: (torch.randint(10, (2, size(12, n))),))


@item("torch_geometric")
def dense_batch() -> Use:
    from torch_geometric.utils import to_dense_batch

    return Use(
        "eval", to_dense_batch, lambda n: (torch.randn(5, 3), torch.tensor([0, 0, 1, 1, n % 2 + 1]))
    )


@item("torch_geometric")
def degrees_and_softmax() -> Use:
    from torch_geometric.utils import degree, softmax

    def both(values: torch.Tensor, index: torch.Tensor) -> object:
        return degree(index), softmax(values, index)

    return Use("eval", both, lambda n: (torch.randn(size(8, n)), torch.randint(4, (size(8, n),))))


@item("torch_geometric")
def node_classification_step() -> Use:
    from torch_geometric.nn.models import GCN

    model = GCN(6, 8, num_layers=2, out_channels=3, dropout=0.5)

    def loss(net: Any, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        mask = x[:, 0] > 0
        return torch.nn.functional.cross_entropy(net(x, edges)[mask], x.argmax(-1)[mask] % 3)

    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    return stepped(model, optimizer, loss, _graph())


@item("torch_geometric")
def continuous_filters() -> Use:
    from torch_geometric.nn.models.schnet import GaussianSmearing, InteractionBlock

    smear, block = GaussianSmearing(0.0, 5.0, 8), InteractionBlock(6, 8, 6, 5.0)

    def interact(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        length = (x[edges[0], :3] - x[edges[1], :3]).norm(dim=-1)
        return block(x, edges, length, smear(length))

    return Use("train", interact, _graph(), (block,))


@item("torch_geometric")
def link_prediction_step() -> Use:
    from torch_geometric.nn import GAE, GCNConv
    from torch_geometric.utils import negative_sampling

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(6, 4)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.conv(x, edges).relu()

    model = GAE(Encoder())

    def loss(net: Any, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        z = net.encode(x, edges)
        return net.recon_loss(z, edges, negative_sampling(edges, x.shape[0], 8))

    return stepped(model, torch.optim.Adam(model.parameters(), lr=0.01), loss, _graph())


def _water() -> Callable[[int], tuple[Any, ...]]:
    """Numbers and places of three atoms."""
    places = torch.tensor([[[0.0, 0, 0], [0.0, 0.8, 0.6], [0.0, -0.8, 0.6]]])
    return lambda n: (torch.tensor([[8, 1, 1]]), places + 0.05 * torch.randn(1, 3, 3))


@item("torchani")
def atomic_environments() -> Use:
    import torchani

    describe = torchani.AEVComputer.like_2x()
    return evaluated(describe, lambda n: (torch.tensor([[0, 1, 1]]), _water()(n)[1]))


@item("torchani")
def energy_and_forces() -> Use:
    from torchani.arch import simple_ani

    model = simple_ani(("H", "O"), lot="wb97x-631gd")

    def energy(kinds: torch.Tensor, places: torch.Tensor) -> object:
        places = places.requires_grad_()
        found = model((kinds, places)).energies
        return found.detach(), -torch.autograd.grad(found.sum(), places)[0]

    return Use("step", energy, _water(), (model,))


@item("e3nn")
def spherical_harmonics() -> Use:
    from e3nn import o3

    def harmonics(vectors: torch.Tensor) -> torch.Tensor:
        return o3.spherical_harmonics([0, 1, 2], vectors, normalize=True)

    return Use("eval", harmonics, lambda n: (torch.randn(size(5, n), 3),))


@item("e3nn")
def linear_of_irreps() -> Use:
    from e3nn import o3

    return trained(
        o3.Linear("4x0e + 2x1o", "2x0e + 1x1o"), lambda n: (torch.randn(size(3, n), 10),)
    )


@item("e3nn")
def tensor_product() -> Use:
    from e3nn import o3

    product = o3.FullyConnectedTensorProduct("4x0e + 2x1o", "0e + 1o", "2x0e + 1x1o")
    return trained(product, lambda n: (torch.randn(size(3, n), 10), torch.randn(size(3, n), 4)))


@item("e3nn")
def gate() -> Use:
    from e3nn import nn

    act = torch.nn.functional.silu
    gate = nn.Gate("4x0e", [act], "2x0e", [torch.sigmoid], "2x1o")
    return evaluated(gate, lambda n: (torch.randn(size(3, n), 12),))
