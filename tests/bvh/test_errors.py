"""Every documented exception, its type and its words."""

import re

import pytest
import torch

import bvh

P, Q, F = torch.rand(20, 3), torch.rand(5, 3), torch.rand(20, 2)
PB, QB = torch.rand(2, 20, 3), torch.rand(2, 5, 3)
OFF, QOFF = torch.tensor([0, 8, 20]), torch.tensor([0, 2, 5])
POS, DQ, VAL = torch.rand(2, 20, 3), torch.rand(2, 20, 4, 3), torch.rand(2, 20, 4, 6)
IDX = torch.zeros((2, 20, 4, 8), dtype=torch.int64)
TRI, RAY = torch.rand(4, 3, 3), torch.rand(6, 3)


def single():
    return bvh.build_bvh(P)


def batched():
    return bvh.build_bvh(PB)


def ragged():
    return bvh.build_bvh(P, batch_offsets=OFF)


def heads(**changes):
    arguments = {"points": POS, "displaced_points": DQ, "features": VAL, "k": 8, **changes}
    return bvh.bvh_mls_interpolate_batched_heads(**arguments)


def conditional(**changes):
    arguments = {
        "mask": torch.ones((2, 20, 4), dtype=torch.bool),
        "true_points": POS,
        "true_queries": DQ,
        "true_features": VAL,
        "false_points": POS,
        "false_queries": DQ,
        "false_features": VAL,
        **changes,
    }
    return bvh.conditional_mls_interpolate(arguments.pop("mask"), **arguments)


def trace(**changes):
    options = {"t_min": 1e-7, "t_max": float("inf"), "origins": RAY, "directions": RAY, **changes}
    scene = bvh.RayBVH(options.pop("primitives", TRI), primitive_type=options.pop("primitive_type", "triangle"))
    return scene.trace(options.pop("origins"), options.pop("directions"), **options)


CASES = {
    # k comes first, whatever else is wrong
    "k zero": (lambda: bvh.query_knn(single(), Q, 0), ValueError, r"k must be 4, 8, or 16.*1 to 64.*got 0"),
    "k 65": (lambda: bvh.query_knn(single(), Q, 65), ValueError, r"k must be.*1 to 64.*got 65"),
    "k float": (lambda: bvh.query_knn(single(), Q, 4.0), ValueError, r"k must be"),
    "k bool": (lambda: bvh.query_knn(single(), Q, True), ValueError, r"k must be"),
    "k before handle": (lambda: bvh.query_knn(object(), Q, 0), ValueError, r"k must be"),
    "k mls": (lambda: bvh.mls_interpolate(P, Q, F, 0), ValueError, r"k must be"),
    "k heads": (lambda: heads(k=-1), ValueError, r"k must be"),
    "k conditional": (lambda: conditional(k=0), ValueError, r"k must be"),
    "k batched": (lambda: bvh.query_knn_batched(single(), QB, 0), ValueError, r"k must be"),
    "k ragged": (lambda: bvh.query_knn_ragged(single(), Q, QOFF, 0), ValueError, r"k must be"),
    "k function": (lambda: bvh.BVHQuery.apply(P, Q, 0), ValueError, r"k must be"),
    "k displaced": (lambda: bvh.query_displaced_knn(POS, DQ, 0), ValueError, r"k must be"),
    # then the kind of handle
    "no handle": (lambda: bvh.query_knn(object(), torch.empty((0, 2)), 4), TypeError, r"BVHHandle or mapping"),
    "empty dict": (lambda: bvh.query_knn({}, Q, 4), TypeError, r"BVHHandle or mapping"),
    "batched of single": (lambda: bvh.query_knn_batched(single(), QB, 4), TypeError, r"BatchedBVHHandle"),
    "batched of ragged": (lambda: bvh.query_knn_batched(ragged(), QB, 4), TypeError, r"BatchedBVHHandle"),
    "batched of other": (lambda: bvh.query_knn_batched(object(), QB, 4), TypeError, r"BatchedBVHHandle"),
    "batched of single dict": (lambda: bvh.query_knn_batched(dict(single()), QB, 4), TypeError, r"BatchedBVHHandle"),
    "ragged of single": (lambda: bvh.query_knn_ragged(single(), Q, QOFF, 4), TypeError, r"RaggedBVHHandle"),
    "ragged of batched": (lambda: bvh.query_knn_ragged(batched(), Q, QOFF, 4), TypeError, r"RaggedBVHHandle"),
    "ragged of other": (lambda: bvh.query_knn_ragged(None, Q, QOFF, 4), TypeError, r"RaggedBVHHandle"),
    "offsets to single": (
        lambda: bvh.query_knn(single(), Q, 4, query_offsets=QOFF),
        TypeError,
        r"query_offsets.*RaggedBVHHandle",
    ),
    "ragged without offsets": (lambda: bvh.query_knn(ragged(), Q, 4), ValueError, r"query_offsets"),
    # builds
    "build rank 1": (lambda: bvh.build_bvh(P[0]), ValueError, r"points.*shape"),
    "build rank 4": (lambda: bvh.build_bvh(P[None, None]), ValueError, r"points.*shape"),
    "build D": (lambda: bvh.build_bvh(torch.rand(5, 4)), ValueError, r"D must be 2 or 3, got 4"),
    "build batched D": (lambda: bvh.build_bvh(torch.rand(2, 5, 1)), ValueError, r"D must be 2 or 3"),
    "build float64": (lambda: bvh.build_bvh(P.double()), ValueError, r"points must be float32"),
    "build integers": (lambda: bvh.build_bvh(torch.ones((5, 3), dtype=torch.int64)), ValueError, r"float32"),
    "build nothing": (lambda: bvh.build_bvh(torch.empty((0, 3))), ValueError, r"shape"),
    "build no tensor": (lambda: bvh.build_bvh([[0.0, 1.0]]), TypeError, r"points must be a torch.Tensor"),
    "build batched rank": (lambda: bvh.build_bvh_batched(P), ValueError, r"shape"),
    "build ragged 3-D": (lambda: bvh.build_bvh_ragged(PB, OFF), ValueError, r"shape.*2-D points"),
    "build offsets 3-D": (lambda: bvh.build_bvh(PB, batch_offsets=OFF), ValueError, r"shape.*2-D points"),
    "build ragged D": (lambda: bvh.build_bvh_ragged(torch.rand(20, 4), OFF), ValueError, r"D must be 2 or 3"),
    "build ragged float64": (lambda: bvh.build_bvh_ragged(P.double(), OFF), ValueError, r"float32"),
    "offsets rank": (lambda: bvh.build_bvh(P, batch_offsets=OFF[None]), ValueError, r"batch_offsets.*shape"),
    "offsets none": (lambda: bvh.build_bvh(P, batch_offsets=OFF[:1]), ValueError, r"batch_offsets.*shape"),
    "offsets dtype": (lambda: bvh.build_bvh(P, batch_offsets=OFF.int()), ValueError, r"batch_offsets.*int64"),
    "offsets start": (lambda: bvh.build_bvh(P, batch_offsets=OFF + 1), ValueError, r"start at 0"),
    "offsets end": (lambda: bvh.build_bvh(P, batch_offsets=torch.tensor([0, 19])), ValueError, r"final offset"),
    "offsets order": (
        lambda: bvh.build_bvh(P, batch_offsets=torch.tensor([0, 9, 8, 20])),
        ValueError,
        r"strictly increasing",
    ),
    "offsets fall though empty is allowed": (
        lambda: bvh.build_bvh(P, batch_offsets=torch.tensor([0, 9, 8, 20]), allow_empty=True),
        ValueError,
        r"non-decreasing.*set 1",
    ),
    "offsets list": (lambda: bvh.build_bvh(P, batch_offsets=[0, 20]), TypeError, r"batch_offsets.*torch.Tensor"),
    "allow_empty": (lambda: bvh.build_bvh(P, allow_empty=1), TypeError, r"allow_empty"),
    # queries
    "single query rank": (lambda: bvh.query_knn(single(), QB, 4), ValueError, r"query_points.*shape"),
    "single query D": (lambda: bvh.query_knn(single(), Q[:, :2], 4), ValueError, r"last dimension.*3, got 2"),
    "single query float64": (lambda: bvh.query_knn(single(), Q.double(), 4), ValueError, r"query_points.*float32"),
    "single few points": (lambda: bvh.query_knn(bvh.build_bvh(P[:3]), Q, 4), ValueError, r"3 points.*at least k"),
    "single pad": (lambda: bvh.query_knn(single(), Q, 4, pad=1), TypeError, r"pad must be a bool"),
    "single sort": (lambda: bvh.query_knn(single(), Q, 4, sort_queries="x"), TypeError, r"sort_queries"),
    "query no tensor": (lambda: bvh.query_knn(single(), [1.0], 4), TypeError, r"query_points"),
    "batched query rank": (lambda: bvh.query_knn(batched(), Q, 4), ValueError, r"shape"),
    "batched query batch": (lambda: bvh.query_knn(batched(), QB[:1], 4), ValueError, r"batch size"),
    "batched query D": (lambda: bvh.query_knn(batched(), QB[..., :2], 4), ValueError, r"last dimension"),
    "batched few points": (lambda: bvh.query_knn(bvh.build_bvh(PB[:, :3]), QB, 4), ValueError, r"at least k"),
    "ragged query rank": (lambda: bvh.query_knn_ragged(ragged(), QB, QOFF, 4), ValueError, r"shape"),
    "ragged query D": (lambda: bvh.query_knn_ragged(ragged(), Q[:, :2], QOFF, 4), ValueError, r"second dimension"),
    "ragged samples": (
        lambda: bvh.query_knn_ragged(ragged(), Q, torch.tensor([0, 5]), 4),
        ValueError,
        r"query_offsets.*batch size",
    ),
    "ragged offsets dtype": (lambda: bvh.query_knn_ragged(ragged(), Q, QOFF.int(), 4), ValueError, r"int64"),
    "ragged offsets end": (
        lambda: bvh.query_knn_ragged(ragged(), Q, torch.tensor([0, 2, 4]), 4),
        ValueError,
        r"final offset",
    ),
    "ragged offsets order": (
        lambda: bvh.query_knn_ragged(ragged(), Q, torch.tensor([0, 0, 5]), 4),
        ValueError,
        r"strictly increasing",
    ),
    "ragged few points": (lambda: bvh.query_knn_ragged(ragged(), Q, QOFF, 9), ValueError, r"set 0 has 8.*at least k"),
    "source short": (
        lambda: bvh.query_knn_ragged(ragged(), Q, QOFF, 4, source_points=P[:-1]),
        ValueError,
        r"source_points.*first dimension",
    ),
    "source float64": (
        lambda: bvh.query_knn_ragged(ragged(), Q, QOFF, 4, source_points=P.double()),
        ValueError,
        r"source_points.*float32",
    ),
    "source shape": (lambda: bvh.query_knn(single(), Q, 4, source_points=PB), ValueError, r"source_points.*shape"),
    "source device": (
        lambda: bvh.query_knn(single(), Q, 4, source_points=P.to("meta")),
        ValueError,
        r"source_points.*same device",
    ),
    "query device": (lambda: bvh.query_knn(single(), Q.to("meta"), 4), ValueError, r"query_points.*same device"),
    # moving least squares
    "mls rank": (lambda: bvh.mls_interpolate(P[0], Q, F), ValueError, r"points.*shape"),
    "mls queries rank": (lambda: bvh.mls_interpolate(P, QB, F), ValueError, r"displaced_points.*shape"),
    "mls features rank": (lambda: bvh.mls_interpolate(P, Q, F[0]), ValueError, r"features.*shape"),
    "mls D": (lambda: bvh.mls_interpolate(P, Q[:, :2], F), ValueError, r"displaced_points.*last dimension"),
    "mls rows": (lambda: bvh.mls_interpolate(P, Q, F[:-1]), ValueError, r"features.*number of points.*20, got 19"),
    "mls float64": (lambda: bvh.mls_interpolate(P, Q, F.double()), ValueError, r"features must be float32"),
    "mls queries float64": (lambda: bvh.mls_interpolate(P, Q.double(), F), ValueError, r"displaced_points.*float32"),
    "mls no channel": (lambda: bvh.mls_interpolate(P, Q, F[:, :0]), ValueError, r"features.*C >= 1"),
    "mls few": (lambda: bvh.mls_interpolate(P[:7], Q, F[:7], 8), ValueError, r"7 points.*at least k"),
    "mls batch": (
        lambda: bvh.mls_interpolate(PB, QB[:1], torch.rand(2, 20, 2)),
        ValueError,
        r"displaced_points.*batch size",
    ),
    "mls device": (lambda: bvh.mls_interpolate(P, Q.to("meta"), F), ValueError, r"displaced_points.*same device"),
    "mls ridge": (
        lambda: bvh.mls_interpolate(P, Q, F, regularization="none"),
        ValueError,
        r"regularization must be one of.*'none'",
    ),
    "mls return_grad": (lambda: bvh.mls_interpolate(P, Q, F, return_grad=1), TypeError, r"return_grad"),
    "mls geometry": (lambda: bvh.mls_interpolate(P, Q, F, geometry=single()), TypeError, r"geometry.*PointGeometry"),
    "mls single of batch": (lambda: bvh.bvh_mls_interpolate(PB, QB, F), ValueError, r"points.*shape \(N, D\)"),
    "mls batch of single": (lambda: bvh.bvh_mls_interpolate_batched(P, Q, F), ValueError, r"points.*shape \(B, N, D\)"),
    "heads": (lambda: heads(features=VAL[:, :, :2]), ValueError, r"features.*number of heads"),
    "mask dtype": (lambda: conditional(mask=torch.ones(2, 20, 4)), ValueError, r"mask must be bool"),
    "mask before queries": (
        lambda: conditional(mask=torch.ones(2, 20, 4), true_queries=DQ[:1]),
        ValueError,
        r"mask must be bool",
    ),
    "query branches": (
        lambda: conditional(true_queries=DQ[:, :3], true_features=VAL[..., :2]),
        ValueError,
        r"query branches",
    ),
    "query branches rank": (
        lambda: conditional(true_queries=DQ[0], false_queries=DQ[0]),
        ValueError,
        r"query branches",
    ),
    "feature branches": (
        lambda: conditional(false_features=VAL[..., :2]),
        ValueError,
        r"feature branches must share C",
    ),
    "conditional geometry": (lambda: conditional(true_geometry=3), TypeError, r"true_geometry"),
    # displaced queries
    "pos rank": (lambda: bvh.query_displaced_knn(POS[0], DQ), ValueError, r"pos.*shape"),
    "q rank": (lambda: bvh.query_displaced_knn(POS, DQ[0]), ValueError, r"q .*shape"),
    "displaced batch": (lambda: bvh.query_displaced_knn(POS, DQ[:1]), ValueError, r"batch size"),
    "displaced points": (lambda: bvh.query_displaced_knn(POS, DQ[:, :5]), ValueError, r"point dimension"),
    "displaced shapes before k": (lambda: bvh.query_displaced_knn(POS[0], DQ, 0), ValueError, r"pos.*shape"),
    "displaced float64": (lambda: bvh.query_displaced_knn(POS.double(), DQ), ValueError, r"pos must be float32"),
    "displaced q float64": (lambda: bvh.query_displaced_knn(POS, DQ.double()), ValueError, r"q must be float32"),
    "displaced few": (lambda: bvh.query_displaced_knn(POS[:, :3], DQ[:, :3]), ValueError, r"at least k"),
    "gather float64": (lambda: bvh.gather_neighbor_values(VAL.double(), IDX), ValueError, r"values must be float32"),
    "gather int32": (lambda: bvh.gather_neighbor_values(VAL, IDX.int()), ValueError, r"indices must be int64"),
    "gather above": (lambda: bvh.gather_neighbor_values(VAL, IDX + 20), ValueError, r"indices must be in \[0, 20\)"),
    "gather below": (lambda: bvh.gather_neighbor_values(VAL, IDX - 1), ValueError, r"indices must be in"),
    "gather rank": (lambda: bvh.gather_neighbor_values(VAL[0], IDX), ValueError, r"values.*shape"),
    "gather heads": (lambda: bvh.gather_neighbor_values(VAL, IDX[:, :, :1]), ValueError, r"number of heads"),
    "reduction": (
        lambda: bvh.interpolate_displaced(POS, DQ, VAL, reduction="sum"),
        ValueError,
        r"reduction must be 'weighted_mean'",
    ),
    "interpolate values": (lambda: bvh.interpolate_displaced(POS, DQ, VAL[0]), ValueError, r"values.*shape"),
    "interpolate float64": (lambda: bvh.interpolate_displaced(POS, DQ, VAL.double()), ValueError, r"values.*float32"),
    # geometry
    "geometry fast": (lambda: bvh.PointGeometry(P, experimental_fast=1), TypeError, r"experimental_fast"),
    "geometry rank": (lambda: bvh.PointGeometry(P[0]), ValueError, r"points.*shape"),
    "geometry float64": (lambda: bvh.PointGeometry(P.double()), ValueError, r"float32"),
    # farthest points
    "fps mode first": (lambda: bvh.fps([], 4, mode="random"), ValueError, r"mode must be one of"),
    "fps none": (lambda: bvh.fps(P, 0), ValueError, r"target token count"),
    "fps too many": (lambda: bvh.fps(P, 21), ValueError, r"target token count.*20.*got 21"),
    "fps float count": (lambda: bvh.fps(P, 4.0), ValueError, r"target token count"),
    "fps seed": (lambda: bvh.fps(P, 4, seed=20), ValueError, r"seed must be"),
    "fps seed below": (lambda: bvh.fps(P, 4, seed=-2), ValueError, r"seed must be"),
    "fps rank": (lambda: bvh.fps(P[0], 1), ValueError, r"points.*shape"),
    "fps D": (lambda: bvh.fps(torch.rand(9, 4), 1), ValueError, r"D must be 2 or 3"),
    "fps float64": (lambda: bvh.fps(P.double(), 1), ValueError, r"float32"),
    "fps r": (lambda: bvh.fps(P, 4, mode="approx_bucketed", r=9), ValueError, r"r must be"),
    "fps c": (lambda: bvh.fps(P, 4, mode="approx_bucketed", c=0), ValueError, r"c must be"),
    "fps r c": (lambda: bvh.fps(P, 4, mode="approx_bucketed", r=8, c=5), ValueError, r"r \* c"),
    # rays
    "ray type": (lambda: trace(primitive_type="quad"), ValueError, r"primitive_type"),
    "ray no tensor": (lambda: trace(primitives=[1]), TypeError, r"primitives"),
    "ray shape": (lambda: trace(primitive_type="segment"), ValueError, r"requires"),
    "ray float64": (lambda: trace(primitives=TRI.double()), ValueError, r"primitives must be float32"),
    "ray none": (lambda: trace(primitives=TRI[:0]), ValueError, r"shape"),
    "ray batch": (lambda: trace(primitives=TRI[None].repeat(2, 1, 1, 1)), ValueError, r"batch size"),
    "ray t_min": (lambda: trace(t_min=-1.0), ValueError, r"0 <= t_min"),
    "ray t_min nan": (lambda: trace(t_min=float("nan")), ValueError, r"0 <= t_min"),
    "ray t order": (lambda: trace(t_min=2.0, t_max=1.0), ValueError, r"0 <= t_min"),
    "ray t inf": (lambda: trace(t_min=float("inf")), ValueError, r"0 <= t_min"),
    "ray origins float64": (lambda: trace(origins=RAY.double()), ValueError, r"origins must be float32"),
    "ray directions D": (lambda: trace(directions=RAY[:, :2]), ValueError, r"directions.*last dimension"),
    "ray shapes": (lambda: trace(directions=RAY[:2]), ValueError, r"same shape"),
    "ray device": (lambda: trace(origins=RAY.to("meta")), ValueError, r"same device"),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    call, kind, words = CASES[name]
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert re.search(words, str(caught.value)), str(caught.value)


def test_destroyed_objects():
    handle, geometry, rays = single(), bvh.PointGeometry(P), bvh.RayBVH(TRI, primitive_type="triangle")
    for thing in (handle, geometry, rays):
        assert not thing.destroyed
        thing.destroy()
        thing.destroy()
        assert thing.destroyed
    for call in (
        lambda: bvh.query_knn(handle, Q, 4),
        lambda: bvh.query_knn(handle, Q.double(), 4),
        lambda: geometry.validate(Q),
        lambda: geometry.bvh,
        lambda: bvh.mls_interpolate(P, Q, F, geometry=geometry),
        lambda: rays.trace(RAY, RAY),
        lambda: rays.trace_all(RAY, RAY),
    ):
        with pytest.raises(RuntimeError, match="destroyed"):
            call()


def test_destroyed_handles_of_the_right_kind_in_the_aliases():
    both = batched(), ragged()
    for handle in both:
        handle.destroy()
    with pytest.raises(RuntimeError, match="destroyed"):
        bvh.query_knn_batched(both[0], QB, 4)
    with pytest.raises(RuntimeError, match="destroyed"):
        bvh.query_knn_ragged(both[1], Q, QOFF, 4)
