"""Meshes from STEP files: a block written here comes back in millimetres, closed, and damaged files are refused."""

import itertools

import numpy as np
import pytest

import nsq

pytest.importorskip("cascadio", reason="CAD files need the extra 'cad'")

SIZE = np.array([4.0, 3.0, 2.0])


def block():
    """An AP214 file of a block with corners at 0 and SIZE, mm."""
    lines = []

    def add(text):
        lines.append(f"#{len(lines) + 1}={text};")
        return f"#{len(lines)}"

    def vector(kind, xyz):
        return add(f"{kind}('',({','.join(f'{float(v):.6f}' for v in xyz)}))")

    corners = {c: SIZE * c for c in itertools.product((0, 1), repeat=3)}
    vertices = {c: add(f"VERTEX_POINT('',{vector('CARTESIAN_POINT', p)})") for c, p in corners.items()}
    edges = {}
    for a, b in itertools.combinations(corners, 2):
        if sum(x != y for x, y in zip(a, b, strict=True)) == 1:
            step = add(f"VECTOR('',{vector('DIRECTION', np.subtract(b, a))},1.)")
            line = add(f"LINE('',{vector('CARTESIAN_POINT', corners[a])},{step})")
            edges[a, b] = add(f"EDGE_CURVE('',{vertices[a]},{vertices[b]},{line},.T.)")
    faces = []
    for axis, side in itertools.product(range(3), (0, 1)):
        u, v = (axis + 1) % 3, (axis + 2) % 3
        loop = []
        for i, j in ((0, 0), (1, 0), (1, 1), (0, 1)):
            corner = [0, 0, 0]
            corner[axis], corner[u], corner[v] = side, i, j
            loop.append(tuple(corner))
        loop = loop if side else loop[::-1]
        turns = [
            add(f"ORIENTED_EDGE('',*,*,{edges[min(a, b), max(a, b)]},{'.T.' if a < b else '.F.'})")
            for a, b in zip(loop, loop[1:] + loop[:1], strict=True)
        ]
        ring = add(f"EDGE_LOOP('',({','.join(turns)}))")
        bound = add(f"FACE_OUTER_BOUND('',{ring},.T.)")
        normal = np.eye(3)[axis] * (1 if side else -1)
        place = f"{vector('CARTESIAN_POINT', corners[loop[0]])},{vector('DIRECTION', normal)}"
        frame = add(f"AXIS2_PLACEMENT_3D('',{place},{vector('DIRECTION', np.eye(3)[u])})")
        plane = add(f"PLANE('',{frame})")
        faces.append(add(f"ADVANCED_FACE('',({bound}),{plane},.T.)"))
    shell = add(f"CLOSED_SHELL('',({','.join(faces)}))")
    solid = add(f"MANIFOLD_SOLID_BREP('',{shell})")
    units = [
        add("(LENGTH_UNIT()NAMED_UNIT(*)SI_UNIT(.MILLI.,.METRE.))"),
        add("(NAMED_UNIT(*)PLANE_ANGLE_UNIT()SI_UNIT($,.RADIAN.))"),
        add("(NAMED_UNIT(*)SI_UNIT($,.STERADIAN.)SOLID_ANGLE_UNIT())"),
    ]
    least = add(f"UNCERTAINTY_MEASURE_WITH_UNIT(LENGTH_MEASURE(1.E-07),{units[0]},'distance','')")
    context = add(
        f"(GEOMETRIC_REPRESENTATION_CONTEXT(3)GLOBAL_UNCERTAINTY_ASSIGNED_CONTEXT(({least}))"
        f"GLOBAL_UNIT_ASSIGNED_CONTEXT(({','.join(units)}))REPRESENTATION_CONTEXT('',''))"
    )
    shape = add(f"ADVANCED_BREP_SHAPE_REPRESENTATION('',({solid}),{context})")
    field = add("APPLICATION_CONTEXT('automotive design')")
    trade = add(f"PRODUCT_CONTEXT('',{field},'mechanical')")
    product = add(f"PRODUCT('block','block','',({trade}))")
    made = add(f"PRODUCT_DEFINITION_FORMATION('','',{product})")
    design = add(f"PRODUCT_DEFINITION_CONTEXT('part definition',{field},'design')")
    define = add(f"PRODUCT_DEFINITION('design','',{made},{design})")
    about = add(f"PRODUCT_DEFINITION_SHAPE('','',{define})")
    add(f"SHAPE_DEFINITION_REPRESENTATION({about},{shape})")
    head = "ISO-10303-21;\nHEADER;\nFILE_DESCRIPTION((''),'2;1');\nFILE_NAME('block','',(''),(''),'','','');\n"
    schema = "FILE_SCHEMA(('AUTOMOTIVE_DESIGN'));\nENDSEC;\nDATA;\n"
    return head + schema + "\n".join(lines) + "\nENDSEC;\nEND-ISO-10303-21;\n"


def test_a_block_comes_back_in_millimetres_and_closed(tmp_path):
    path = tmp_path / "block.step"
    path.write_text(block(), encoding="ascii")
    mesh = nsq.MeshGeometry.load(path)
    corners = np.asarray(mesh.vertices)
    assert corners.min(axis=0) == pytest.approx([0.0, 0.0, 0.0], abs=1e-5)
    assert corners.max(axis=0) == pytest.approx(SIZE, abs=1e-5)
    a, b, c = (corners[mesh.faces[:, k]] for k in range(3))
    assert np.sum(np.cross(a, b) * c) / 6.0 == pytest.approx(SIZE.prod(), rel=1e-6)
    doubled = nsq.MeshGeometry.load(path, scale=2.0)
    assert np.asarray(doubled.vertices).max(axis=0) == pytest.approx(2.0 * SIZE, abs=1e-5)


@pytest.mark.parametrize("text", ["", "ISO-10303-21;", block()[: len(block()) // 2], "not a part"])
def test_what_is_no_part_is_refused(tmp_path, text):
    path = tmp_path / "broken.stp"
    path.write_text(text, encoding="ascii")
    with pytest.raises(ValueError, match=r"broken\.stp"):
        nsq.MeshGeometry.load(path)


def test_the_tolerance_is_checked(tmp_path):
    path = tmp_path / "block.step"
    path.write_text(block(), encoding="ascii")
    with pytest.raises(ValueError, match="tolerance"):
        nsq.MeshGeometry.load(path, tolerance=0.0)
