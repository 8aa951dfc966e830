"""Names, life cycle, and what the mappings hold."""

import subprocess
import sys
from collections.abc import Mapping

import pytest
import torch

import bvh
from tests.bvh.clouds import brute_knn, uniform

NAMES = [
    "BVH",
    "BatchedBVH",
    "RaggedBVH",
    "BVHHandle",
    "BatchedBVHHandle",
    "RaggedBVHHandle",
    "BVHQuery",
    "BatchedBVHQuery",
    "FPSResult",
    "fps",
    "build_bvh",
    "build_bvh_batched",
    "build_bvh_ragged",
    "query_knn",
    "query_knn_batched",
    "query_knn_ragged",
    "mls_interpolate",
    "bvh_mls_interpolate",
    "bvh_mls_interpolate_batched",
    "bvh_mls_interpolate_batched_heads",
    "destroy_bvh",
    "query_displaced_knn",
    "gather_neighbor_values",
    "interpolate_displaced",
    "RayBVH",
    "RayHitResult",
    "raytrace",
    "conditional_mls_interpolate",
    "PointGeometry",
    "SUPPORTED_K",
    "SUPPORTED_DIMS",
]

OFFSETS = torch.tensor([0, 8, 20])
QUERY_OFFSETS = torch.tensor([0, 1, 3])


def single():
    return bvh.build_bvh(uniform(20, 3))


def batched():
    return bvh.build_bvh(uniform(40, 3).reshape(2, 20, 3))


def ragged():
    return bvh.build_bvh(uniform(20, 3), batch_offsets=OFFSETS)


def ask(handle, k=4):
    """A query that fits the kind of handle."""
    queries = torch.rand(3, 3)
    if isinstance(handle, bvh.RaggedBVHHandle):
        return bvh.query_knn(handle, queries, k, query_offsets=QUERY_OFFSETS)
    return bvh.query_knn(handle, queries.expand(2, 3, 3) if isinstance(handle, bvh.BatchedBVHHandle) else queries, k)


@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    assert name in bvh.__all__
    assert hasattr(bvh, name)


def test_names_that_are_gone():
    assert not any(hasattr(bvh, name) for name in ("_linear_mls", "_linear_mls_batched", "fps_downsample_geometry"))
    assert bvh.SUPPORTED_K == (4, 8, 16)
    assert bvh.SUPPORTED_DIMS == (2, 3)


def test_import_prints_nothing():
    run = subprocess.run([sys.executable, "-c", "import bvh, bvh.warp"], capture_output=True, text=True, check=True)
    assert run.stdout == ""
    assert run.stderr == ""


def test_another_kernels_package_is_refused(tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").write_text("")
    code = f"import sys, os; sys.path[:0] = [{str(tmp_path)!r}, os.getcwd()]; import bvh"
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "ImportError" in run.stderr
    assert str(tmp_path / "kernels" / "__init__.py") in run.stderr


@pytest.mark.parametrize(
    ("make", "cls"),
    [(single, bvh.BVHHandle), (batched, bvh.BatchedBVHHandle), (ragged, bvh.RaggedBVHHandle)],
)
class TestEveryKind:
    def test_is_a_mapping(self, make, cls):
        handle = make()
        assert type(handle) is cls
        assert isinstance(handle, Mapping)
        assert handle["dim"] == 3
        assert set(handle) == set(dict(handle))
        assert len(handle) == len(list(handle))

    @pytest.mark.parametrize("destroy", [bvh.destroy_bvh, lambda handle: handle.destroy()])
    def test_destroying(self, make, cls, destroy):
        handle = make()
        assert handle.destroyed is False
        destroy(handle)
        destroy(handle)
        assert handle.destroyed is True
        for access in (lambda: handle["dim"], lambda: list(handle), lambda: len(handle), lambda: ask(handle)):
            with pytest.raises(RuntimeError, match="destroyed"):
                access()
        assert "destroyed" in repr(handle)


def test_single_mapping():
    points = uniform(50, 2)
    handle = bvh.build_bvh(points)
    assert handle["num_leaves"] == 50
    assert "batch_size" not in handle
    assert handle["node_aabbs"].shape == (handle["num_real_nodes"], 4)
    assert handle["sorted_indices"].dtype == torch.int64
    assert torch.equal(handle["sorted_indices"].sort()[0], torch.arange(50))
    root = handle["node_aabbs"][0]
    assert torch.equal(root, torch.cat([points.amin(0), points.amax(0)]))


def test_batched_mapping():
    points = torch.stack([uniform(300, 3), uniform(300, 3, seed=1) * 5])
    handle = bvh.build_bvh(points)
    assert handle["batch_size"] == 2
    assert handle["num_leaves"] == 300
    assert handle["node_aabbs"].shape == (2, handle["num_real_nodes"], 6)
    assert handle["sorted_indices"].shape == (2, 300)
    assert torch.equal(handle["sorted_indices"].sort(1)[0], torch.arange(300).expand(2, 300))
    assert torch.equal(handle["scene_min"], points.amin(1))
    assert torch.equal(handle["scene_max"], points.amax(1))
    assert torch.equal(handle["node_aabbs"][:, 0], torch.cat([points.amin(1), points.amax(1)], 1))


def test_ragged_mapping_and_cascade():
    handle = ragged()
    assert handle["batch_size"] == 2
    assert torch.equal(handle["batch_offsets"], OFFSETS)
    assert handle["batch_offsets"].dtype == torch.int64
    assert handle["num_leaves_per_sample"].tolist() == [8, 12]
    inner = handle._handles
    assert isinstance(inner, list)
    assert [type(h) for h in inner] == [bvh.BVHHandle] * 2
    assert [h["num_leaves"] for h in inner] == [8, 12]
    handle.destroy()
    assert all(h.destroyed for h in inner)
    with pytest.raises(RuntimeError, match="destroyed"):
        bvh.query_knn(inner[0], torch.rand(1, 3), 4)


@pytest.mark.parametrize("make", [single, batched])
def test_plain_dictionaries_work_until_destroyed(make):
    handle = make()
    plain = dict(handle)
    queries = uniform(5, 3, seed=2) if make is single else uniform(10, 3, seed=2).reshape(2, 5, 3)
    want = bvh.query_knn(handle, queries, 8)
    handle.destroy()  # the dictionary holds everything itself
    for got, wanted in zip(bvh.query_knn(plain, queries, 8), want, strict=True):
        assert torch.equal(got, wanted)
    if make is batched:
        assert torch.equal(bvh.query_knn_batched(plain, queries, 8)[0], want[0])
    bvh.destroy_bvh(plain)
    assert plain == {"_destroyed": True}
    bvh.destroy_bvh(plain)
    with pytest.raises(RuntimeError, match="destroyed"):
        bvh.query_knn(plain, queries, 8)


def test_a_ragged_dictionary_is_not_accepted():
    with pytest.raises(TypeError, match="BVHHandle or mapping"):
        bvh.query_knn(dict(ragged()), torch.rand(3, 3), 4)


@pytest.mark.parametrize("other", [object(), None, 3, [], {}, {"dim": 3}, torch.rand(3)])
def test_destroying_something_else(other):
    with pytest.raises(TypeError, match="handle returned by build_bvh"):
        bvh.destroy_bvh(other)


def test_the_build_is_a_snapshot():
    points = uniform(200, 3)
    before = points.clone()
    handle = bvh.build_bvh(points)
    points.zero_()
    queries = uniform(50, 3, seed=1)
    assert torch.equal(bvh.query_knn(handle, queries, 4)[0], brute_knn(before, queries, 4)[0])


def test_building_cuts_the_graph():
    points = uniform(50, 3).requires_grad_()
    handle = bvh.build_bvh(points)
    assert not any(v.requires_grad for v in handle.values() if isinstance(v, torch.Tensor))
    assert points.grad is None


class TestWrappers:
    def test_queries_equal_the_function(self):
        points, queries = uniform(300, 3), uniform(40, 3, seed=1)
        with bvh.BVH(points) as tree:
            for got, want in zip(
                tree.knn(queries, 8, source_points=points),
                bvh.query_knn(bvh.build_bvh(points), queries, 8, source_points=points),
                strict=True,
            ):
                assert torch.equal(got, want)
            assert not tree.destroyed
            assert not hasattr(tree, "__getitem__")
        assert tree.destroyed
        tree.destroy()
        with pytest.raises(RuntimeError, match="destroyed"):
            tree.knn(queries, 8)
        with pytest.raises(RuntimeError, match="destroyed"):
            tree.interpolate(queries, torch.rand(300, 1))
        with pytest.raises(RuntimeError, match="destroyed"), tree:
            pass

    def test_batched(self):
        points, queries = uniform(80, 2).reshape(2, 40, 2), uniform(20, 2).reshape(2, 10, 2)
        with bvh.BatchedBVH(points) as tree:
            assert torch.equal(tree.knn(queries, 4)[0], bvh.query_knn(bvh.build_bvh(points), queries, 4)[0])
        with pytest.raises(ValueError, match="shape"):
            bvh.BatchedBVH(points[0])

    def test_ragged(self):
        points, queries = uniform(20, 3), uniform(3, 3, seed=1)
        with bvh.RaggedBVH(points, OFFSETS) as tree:
            got = tree.knn(queries, 4, query_offsets=QUERY_OFFSETS)
            assert torch.equal(got[0], bvh.query_knn_ragged(ragged(), queries, QUERY_OFFSETS, 4)[0])
            with pytest.raises(TypeError, match="interpolate"):
                tree.interpolate(queries, torch.rand(20, 1))
        assert tree.destroyed
        with pytest.raises(ValueError, match="2-D points"):
            bvh.BVH(points.reshape(2, 10, 3), batch_offsets=OFFSETS)

    @pytest.mark.parametrize("shape", [(60, 3), (2, 60, 3)])
    def test_interpolation_equals_the_function(self, shape):
        points, queries = torch.rand(shape), torch.rand(shape)
        features = torch.rand((*shape[:-1], 5))
        with bvh.BVH(points) as tree:
            kept = points.clone()
            points.zero_()  # the tree holds the points it was built from
            got = tree.interpolate(queries, features, 8, return_grad=True)
        for g, w in zip(got, bvh.mls_interpolate(kept, queries, features, 8, return_grad=True), strict=True):
            assert torch.equal(g, w)
