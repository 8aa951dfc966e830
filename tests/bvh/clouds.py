"""Point sets that are easy to get wrong, and slow answers to compare with."""

import torch


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def uniform(count, dim, seed=0):
    return torch.rand((count, dim), generator=generator(seed))


def clustered(count, dim, seed=0):
    g = generator(seed)
    centres = torch.rand((8, dim), generator=g)
    spread = 10.0 ** (-4 + 3 * torch.rand((8, 1), generator=g))
    which = torch.randint(0, 8, (count,), generator=g)
    return centres[which] + spread[which] * torch.randn((count, dim), generator=g)


def collinear(count, dim, seed=0):
    direction = torch.tensor([0.3, -1.7, 0.9])[:dim]
    return torch.rand((count, 1), generator=generator(seed)) * direction + 0.25


def duplicated(count, dim, seed=0):
    few = torch.rand((max(1, count // 5), dim), generator=generator(seed))
    return few[torch.randint(0, few.shape[0], (count,), generator=generator(seed + 1))]


def lattice(count, dim, seed=0):
    side = max(1, round(count ** (1 / dim)))
    axes = torch.arange(side, dtype=torch.float32)
    points = torch.stack(torch.meshgrid(*[axes] * dim, indexing="ij"), -1).reshape(-1, dim)
    return points[torch.randperm(points.shape[0], generator=generator(seed))]


def far_away(count, dim, seed=0):
    """Steps of 2^-8 around a base of thousands, exact in float32."""
    base = torch.tensor([1000.0, -2000.0, 3000.0])[:dim]
    return base + torch.randint(0, 4096, (count, dim), generator=generator(seed)) / 256


def all_equal(count, dim, seed=0):
    return torch.full((count, dim), 0.7)


def mixed_scales(count, dim, seed=0):
    """Coordinates of 8e6 beside 1e-3."""
    points = 1e-3 * torch.rand((count, dim), generator=generator(seed))
    points[::7] += 8e6
    return points


CLOUDS = {
    f.__name__: f for f in (uniform, clustered, collinear, duplicated, lattice, far_away, all_equal, mixed_scales)
}


def brute_knn(points, queries, k):
    """Indices and squared distances by sorting all of them; a stable sort puts the lowest index first."""
    delta = queries[:, None, :] - points[None, :, :]
    squared = delta[..., 0] * delta[..., 0]
    for c in range(1, points.shape[1]):  # one axis after the other: the order of the sum is fixed
        squared = squared + delta[..., c] * delta[..., c]
    values, indices = torch.sort(squared, dim=1, stable=True)
    return indices[:, :k], values[:, :k]


def mls_reference(points, queries, features, indices, ridge="absolute"):
    """Value (M, C) and slopes (M, D, C) in float64, differentiable, by the definition; no exact hits."""
    points, queries, features = points.double(), queries.double(), features.double()
    delta = queries[:, None, :] - points[indices]
    squared = (delta**2).sum(-1)
    middle = (indices.shape[1] - 1) // 2
    h = squared[:, middle : middle + 1].clamp_min(1e-12)
    weights = torch.exp(-squared / (2 * h))
    basis = torch.cat([torch.ones_like(squared)[..., None], delta], -1)
    matrix = torch.einsum("nk,nki,nkj->nij", weights, basis, basis)
    identity = torch.eye(basis.shape[-1], dtype=torch.float64)
    if ridge == "absolute":
        matrix = matrix + 1e-6 * identity
    else:
        identity[0, 0] = 0
        matrix = matrix + 1e-8 * h[..., None] * identity
    right = torch.einsum("nk,nki,nkc->nic", weights, basis, features[indices])
    solution = torch.linalg.solve(matrix, right)
    return solution[:, 0], solution[:, 1:]
