"""Point-cloud geometry on CPU and CUDA tensors: exact neighbours, interpolation, sampling, rays."""

from bvh._check import check_kernels

check_kernels()

from bvh.build import build_bvh, build_bvh_batched, build_bvh_ragged  # noqa: E402
from bvh.classes import BVH, BatchedBVH, RaggedBVH  # noqa: E402
from bvh.displaced import gather_neighbor_values, interpolate_displaced, query_displaced_knn  # noqa: E402
from bvh.geometry import PointGeometry  # noqa: E402
from bvh.handles import BatchedBVHHandle, BVHHandle, RaggedBVHHandle, destroy_bvh  # noqa: E402
from bvh.mls import (  # noqa: E402
    bvh_mls_interpolate,
    bvh_mls_interpolate_batched,
    bvh_mls_interpolate_batched_heads,
    conditional_mls_interpolate,
    mls_interpolate,
)
from bvh.query import BatchedBVHQuery, BVHQuery, query_knn, query_knn_batched, query_knn_ragged  # noqa: E402
from bvh.rays import RayBVH, RayHitResult, RayHits, raytrace  # noqa: E402
from bvh.sampling import FPSResult, fps  # noqa: E402
from bvh.validation import SUPPORTED_DIMS, SUPPORTED_K  # noqa: E402

__all__ = [
    "BVH",
    "SUPPORTED_DIMS",
    "SUPPORTED_K",
    "BVHHandle",
    "BVHQuery",
    "BatchedBVH",
    "BatchedBVHHandle",
    "BatchedBVHQuery",
    "FPSResult",
    "PointGeometry",
    "RaggedBVH",
    "RaggedBVHHandle",
    "RayBVH",
    "RayHitResult",
    "RayHits",
    "build_bvh",
    "build_bvh_batched",
    "build_bvh_ragged",
    "bvh_mls_interpolate",
    "bvh_mls_interpolate_batched",
    "bvh_mls_interpolate_batched_heads",
    "conditional_mls_interpolate",
    "destroy_bvh",
    "fps",
    "gather_neighbor_values",
    "interpolate_displaced",
    "mls_interpolate",
    "query_displaced_knn",
    "query_knn",
    "query_knn_batched",
    "query_knn_ragged",
    "raytrace",
]
