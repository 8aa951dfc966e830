"""The point package against its peers: k-NN, farthest points, moving least squares, rays on triangles.

k-NN is build plus query, with as many queries as points, k = 8, two threads on each side. Farthest points compare with
the best of fpsample's bucket functions over its heights. Moving least squares is forward plus backward against plain
torch, both given the same neighbours; a second line has both after the same search. Rays are closest hits on 81,920
triangles, one thread each. Times are medians of undisturbed runs, taken in turn; a run at 10,000 points is ten calls on
end, on every side.
"""

import argparse
import os
import sys
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np
import torch

from benchmarks.timing import measure, require

THREADS = 2
K = 8
SIZES = (10_000, 100_000, 1_000_000)
# times the fastest peer for a size, and at 10,000 points cKDTree alone
TARGETS = {10_000: 1.0, 100_000: 1.3, 1_000_000: 3.0}
FARTHEST = ((10_000, 2_500), (100_000, 10_000), (1_000_000, 10_000))
FARTHEST_TARGET = 1.5
HEIGHTS = (3, 5, 7, 9)
LOOPS = {10_000: 10}  # calls a run: single calls of a few milliseconds measure how cold the caches are
MLS_TARGET = 4.0
RAYS = 1_000_000
RAY_TARGETS = {"embreex": 0.5, "wp.Mesh": 2.0}


def cloud(kind, count, dim, seed):
    """Uniform points of the unit cube, or 64 normal clusters of widths from 1e-4 to 0.03."""
    rng = np.random.default_rng(seed)
    if kind == "uniform":
        return rng.random((count, dim), dtype=np.float32)
    layout = np.random.default_rng(5)
    centres, widths = layout.random((64, dim)), 10.0 ** layout.uniform(-4, -1.5, 64)
    which = rng.integers(0, 64, count)
    return (centres[which] + widths[which, None] * rng.standard_normal((count, dim))).astype(np.float32)


def timed(*calls, repeats, patience, loops=1):
    """``measure`` of calls whose results are dropped; a run is ``loops`` calls one after the other."""

    def run(call):
        start = perf_counter()
        for _ in range(loops):
            call()
        return (perf_counter() - start) / loops

    return measure(*(partial(run, call) for call in calls), repeats=repeats, patience=patience)


def report(name, ours, peers, target, needed):
    """One line: our time, each peer's time and ratio, and whether the ratio to those in ``needed`` meets the target."""
    ratio = min(peers[peer].median for peer in needed) / ours.median
    others = max(t.others for t in (ours, *peers.values()))
    parts = "  ".join(f"{peer} {t.median * 1e3:.1f} ms ({t.median / ours.median:.2f}x)" for peer, t in peers.items())
    noise = f"  [others busy {others:.2f} cores]" if others >= 0.15 else ""
    met = "met" if ratio >= target else "MISSED"
    print(f"{name:38} {ours.median * 1e3:8.1f} ms  {parts}  target {target:g}x: {ratio:.2f}x {met}{noise}", flush=True)


def neighbours(sizes, patience):
    """k-NN, build plus query."""
    import bvh

    scipy_spatial, pynanoflann = require("scipy.spatial"), require("pynanoflann")

    def ours(points, queries):
        return bvh.query_knn(bvh.build_bvh(points), queries, K)

    def kd_tree(points, queries):
        return scipy_spatial.cKDTree(points).query(queries, k=K, workers=THREADS)

    def nanoflann(points, queries):
        tree = pynanoflann.KDTree(n_neighbors=K, leaf_size=16, metric="l2")
        tree.fit(points)
        return tree.kneighbors(queries, n_jobs=THREADS)

    for count in sizes:
        for dim in (2, 3):
            for kind in ("uniform", "clustered"):
                points, queries = cloud(kind, count, dim, 1), cloud(kind, count, dim, 2)
                tensors = torch.from_numpy(points), torch.from_numpy(queries)
                found = ours(*tensors)[1].double().sqrt().numpy()
                np.testing.assert_allclose(found, kd_tree(points, queries)[0], rtol=1e-4, atol=1e-6)
                first, *peers = timed(
                    partial(ours, *tensors),
                    partial(kd_tree, points, queries),
                    partial(nanoflann, points, queries),
                    repeats=5,
                    patience=patience,
                    loops=LOOPS.get(count, 1),
                )
                peers = dict(zip(("cKDTree", "pynanoflann"), peers, strict=True))
                needed = ("cKDTree",) if count == 10_000 else tuple(peers)
                report(f"k-NN {kind} N = M = {count:,} D = {dim}", first, peers, TARGETS[count], needed)


def farthest(sizes, patience):
    """Exact farthest point sampling in three dimensions."""
    import bvh

    fpsample = require("fpsample")
    for count, wanted in FARTHEST:
        if count not in sizes:
            continue
        points = cloud("uniform", count, 3, 1)
        tensor = torch.from_numpy(points)
        bvh.fps(tensor, wanted)
        peers = {
            f"kdline h = {h}": partial(fpsample.bucket_fps_kdline_sampling, points, wanted, h, start_idx=0)
            for h in HEIGHTS
        }
        peers["kdtree"] = partial(fpsample.bucket_fps_kdtree_sampling, points, wanted, start_idx=0)
        first, *timings = timed(
            partial(bvh.fps, tensor, wanted),
            *peers.values(),
            repeats=5,
            patience=patience,
            loops=LOOPS.get(count, 1),
        )
        timings = dict(zip(peers, timings, strict=True))
        best = min(timings, key=lambda name: timings[name].median)
        name = f"farthest points {count:,} to {wanted:,}"
        report(name, first, {f"fpsample {best}": timings[best]}, FARTHEST_TARGET, (f"fpsample {best}",))


def torch_mls(points, queries, features, indices):
    """The definition in plain torch operations, float32."""
    delta = queries[:, None, :] - points[indices]
    squared = (delta**2).sum(-1)
    middle = (indices.shape[1] - 1) // 2
    h = squared[:, middle : middle + 1].clamp_min(1e-12)
    weights = torch.exp(-squared / (2 * h))
    basis = torch.cat([torch.ones_like(squared)[..., None], delta], -1)
    weighted = weights[..., None] * basis
    matrix = weighted.mT @ basis + 1e-6 * torch.eye(basis.shape[-1])
    return torch.linalg.solve(matrix, weighted.mT @ features[indices])[:, 0]


def interpolation(sizes, patience):
    """Moving least squares forward plus backward; the target is for what comes after the search for neighbours."""
    import bvh
    from bvh import mls

    if 100_000 not in sizes:
        return
    count, channels = 100_000, 16
    points = torch.from_numpy(cloud("uniform", count, 3, 1))
    queries = torch.from_numpy(cloud("uniform", count, 3, 2)).requires_grad_()
    features = torch.randn((count, channels), generator=torch.Generator().manual_seed(3)).requires_grad_()

    def search():
        return bvh.query_knn(bvh.build_bvh(points), queries, K)[0]

    indices = search()
    side = replace(mls.make_side(points, None, count), neighbours=indices)
    options = mls.check_options(K, False, "absolute")

    def gradients(value):
        return torch.autograd.grad(value.sum(), (queries, features))

    def ours():
        return gradients(mls.evaluate((side,), options, queries, features))

    def theirs(found=indices):
        return gradients(torch_mls(points, queries, features, found))

    def ours_with_search():
        return gradients(bvh.mls_interpolate(points, queries, features, K))

    def theirs_after_search():
        return theirs(search())

    for got, again in zip(ours(), ours_with_search(), strict=True):
        torch.testing.assert_close(got, again)
    first, second = timed(ours, theirs, repeats=9, patience=patience)
    name = f"MLS with gradients N = M = {count:,} C = {channels}"
    report(name, first, {"torch": second}, MLS_TARGET, ("torch",))
    first, second, third = timed(ours_with_search, theirs_after_search, search, repeats=5, patience=patience)
    print(
        f"{'  the search for neighbours included':38} {first.median * 1e3:8.1f} ms  torch after our search"
        f" {second.median * 1e3:.1f} ms ({second.median / first.median:.2f}x)  the search alone"
        f" {third.median * 1e3:.1f} ms",
        flush=True,
    )


def camera(count, seed=3):
    """Rays from a sphere of radius 3 towards points of the ball of radius 1.1; nine in ten hit the unit sphere."""
    rng = np.random.default_rng(seed)
    origins = rng.standard_normal((count, 3))
    origins *= 3 / np.linalg.norm(origins, axis=1, keepdims=True)
    targets = rng.standard_normal((count, 3))
    targets *= 1.1 * rng.random((count, 1)) ** (1 / 3) / np.linalg.norm(targets, axis=1, keepdims=True)
    directions = targets - origins
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return origins.astype(np.float32), directions.astype(np.float32)


def rays(sizes, patience):
    """Closest hits of rays on a sphere of 81,920 triangles, one thread each."""
    import warp as wp

    import bvh
    from kernels import lanes

    trimesh = require("trimesh")
    embree = require("trimesh.ray.ray_pyembree") if _has_embree() else None
    ball = trimesh.creation.icosphere(subdivisions=6)
    origins, directions = camera(RAYS)
    tree = bvh.RayBVH(torch.tensor(ball.triangles, dtype=torch.float32), primitive_type="triangle")
    tensors = torch.from_numpy(origins), torch.from_numpy(directions)

    @wp.kernel
    def mesh_query(
        mesh: wp.uint64, o: wp.array(dtype=wp.vec3), d: wp.array(dtype=wp.vec3), t: wp.array(dtype=wp.float32)
    ):
        i = wp.tid()
        query = wp.mesh_query_ray(mesh, o[i], d[i], 1.0e8)
        t[i] = wp.where(query.result, query.t, -1.0)

    mesh = wp.Mesh(
        wp.array(ball.vertices, dtype=wp.vec3, device="cpu"),
        wp.array(ball.faces.reshape(-1), dtype=wp.int32, device="cpu"),
    )
    arrays = [wp.from_torch(x, dtype=wp.vec3) for x in tensors]
    t = wp.empty(RAYS, dtype=wp.float32, device="cpu")
    peers = {"wp.Mesh": lambda: wp.launch(mesh_query, RAYS, inputs=[mesh.id, *arrays, t], device="cpu")}
    if embree is not None:
        scene = embree.RayMeshIntersector(ball)
        peers["embreex"] = lambda: scene.intersects_first(origins, directions)
    lanes.set_num_threads(1)
    try:
        tree.trace(*tensors)
        peers["wp.Mesh"]()
        first, *timings = timed(partial(tree.trace, *tensors), *peers.values(), repeats=3, patience=patience)
    finally:
        lanes.set_num_threads(None)
    for name, timing in zip(peers, timings, strict=True):
        report(f"rays on triangles, {RAYS:,}", first, {name: timing}, RAY_TARGETS[name], (name,))


def _has_embree():
    try:
        import embreex  # noqa: F401
    except ImportError:
        print("rays: embreex is missing (pip install embreex), so only wp.Mesh is compared", flush=True)
        return False
    return True


PARTS = {"knn": neighbours, "fps": farthest, "mls": interpolation, "rays": rays}


def main(argv=None):
    """Run the parts named in ``argv`` (all by default) at the sizes given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.points", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all by default")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to wait for undisturbed runs, per line")
    options = parser.parse_args(argv or [])
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {sorted(unknown)}; there are: {', '.join(PARTS)}")
    os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
    torch.set_num_threads(THREADS)
    for name in options.parts or PARTS:
        PARTS[name](options.sizes, options.patience)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
