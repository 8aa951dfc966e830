"""Bad input is refused before anything is launched: the argument is named, with what it got and what it takes."""

import math

import numpy as np
import pytest
import torch

import nsq

CS = nsq.CoordinateSystem
GREEN = nsq.Spectrum.monochromatic(0.55)
GLASS = nsq.NSQMaterial.constant(1.5)
NAN = math.nan


def lens(**changes):
    config = {"r1": 50.0, "r2": -50.0, "thickness": 5.0, "material": GLASS, "front_aperture_radius": 10.0, **changes}
    return nsq.Lens("L", CS(), nsq.LensConfig(**config))


def doublet(**changes):
    config = {"r1": 62.8, "r2": -45.7, "r3": -128.2, "thickness1": 4.0, "thickness2": 2.5, "aperture_radius": 12.0}
    config = {**config, "material1": GLASS, "material2": GLASS, **changes}
    return nsq.Doublet("DB", CS(), nsq.DoubletConfig(**config))


def mirror(**changes):
    return nsq.Mirror("M", CS(), nsq.MirrorConfig(**{"radius": -100.0, "reflectance": 0.9, **changes}))


def beam(**changes):
    return nsq.CollimatedSourceConfig(**{"spectrum": GREEN, **changes})


def point(**changes):
    return nsq.PointSourceConfig(**{"spectrum": GREEN, **changes})


def panel(**changes):
    return nsq.ExtendedSourceConfig(**{"spectrum": GREEN, **changes})


def screen(**changes):
    return nsq.IrradianceDetectorConfig(**{"width": 10.0, "height": 10.0, **changes})


def rays(**changes):
    return nsq.RayDatabaseConfig(**{"width": 10.0, "height": 10.0, **changes})


def face(**changes):
    return lens(front=nsq.SurfaceConfig(**changes))


def edge(**changes):
    return lens(edge=nsq.SurfaceConfig(**changes))


REFLECTIVE = nsq.InteractionType.REFLECTIVE
FLOAT16 = torch.tensor(1.0, dtype=torch.float16)

# what is built, its arguments, the exception, words that its message holds
CASES = [
    (nsq.NSQMaterial.from_glass, {"name": "NBK7"}, ValueError, ["name", "'NBK7'", "Did you mean 'N-BK7'?"]),
    (lens, {"material": "BK-7"}, ValueError, ["material", "'BK-7'", "Did you mean 'N-BK7'?"]),
    (lens, {"material": None}, TypeError, ["material", "None", "glass name"]),
    (lens, {"material": 1.5}, TypeError, ["material", "1.5", "NSQMaterial"]),
    (lens, {"ambient": 1.5}, TypeError, ["ambient", "1.5"]),
    (nsq.NSQMaterial.constant, {"n": -1.5}, ValueError, ["n", "-1.5", "> 0"]),
    (nsq.NSQMaterial.constant, {"n": 1.5, "k": -1e-9}, ValueError, ["k", "-1e-09", ">= 0"]),
    # thicknesses, apertures and radii
    (lens, {"thickness": -5.0}, ValueError, ["thickness", "-5.0", "> 0"]),
    (lens, {"thickness": 0}, ValueError, ["thickness", "0", "> 0"]),
    (lens, {"thickness": torch.tensor(-5.0, requires_grad=True)}, ValueError, ["thickness", "-5.0", "> 0"]),
    (lens, {"thickness": 0.5}, ValueError, ["thickness", "'L'", "0.5"]),
    (lens, {"front_aperture_radius": -1.0}, ValueError, ["front_aperture_radius", "-1.0", "> 0"]),
    (lens, {"back_aperture_radius": 0.0}, ValueError, ["back_aperture_radius", "0.0", "> 0"]),
    (lens, {"front_aperture_radius": 51.0}, ValueError, ["aperture_radius", "51", "at most 50"]),
    (lens, {"r1": NAN}, ValueError, ["r1", "nan"]),
    (lens, {"r2": torch.tensor(NAN)}, ValueError, ["r2", "nan"]),
    (lens, {"conic1": math.inf}, ValueError, ["conic1", "inf", "finite"]),
    (lens, {"r1": "50"}, TypeError, ["r1", "'50'", "number"]),
    (lens, {"r1": None}, TypeError, ["r1", "None", "number"]),
    (lens, {"r1": True}, TypeError, ["r1", "True", "number"]),
    (lens, {"r1": 50 + 1j}, TypeError, ["r1", "complex"]),
    (lens, {"r1": [50.0]}, TypeError, ["r1", "list"]),
    (lens, {"r1": torch.tensor(50)}, TypeError, ["r1", "int64", "float32 or float64"]),
    (lens, {"r1": torch.tensor(50.0, dtype=torch.float16)}, TypeError, ["r1", "float16", "float32 or float64"]),
    (lens, {"r1": torch.tensor([50.0])}, ValueError, ["r1", "shape (1,)", "shape ()"]),
    (lens, {"thickness": torch.ones(2, 2)}, ValueError, ["thickness", "shape (2, 2)", "shape ()"]),
    (lens, {"thickness": np.ones(1)}, ValueError, ["thickness", "shape (1,)", "shape ()"]),
    (lens, {"front": "coated"}, TypeError, ["front", "str", "SurfaceConfig"]),
    (doublet, {"thickness2": -2.5}, ValueError, ["thickness2", "-2.5", "> 0"]),
    (doublet, {"aperture_radius": -12.0}, ValueError, ["aperture_radius", "-12.0", "> 0"]),
    (doublet, {"aperture_radius": 46.0}, ValueError, ["aperture_radius", "46", "at most 45.7"]),
    (doublet, {"material2": "SF-5"}, ValueError, ["material2", "'SF-5'", "Did you mean"]),
    (doublet, {"front": nsq.SurfaceConfig(aperture_radius=5.0)}, ValueError, ["aperture_radius", "DB.front", "5"]),
    (nsq.SphereGeometry, {"radius": 5.0, "aperture_radius": 5.1}, ValueError, ["aperture_radius", "5.1", "at most 5"]),
    (nsq.SphereGeometry, {"radius": -5.0}, ValueError, ["radius", "-5.0", "> 0"]),
    (nsq.ConicGeometry, {"radius": 5, "conic": 0, "aperture_radius": 5.1}, ValueError, ["aperture_radius", "5.1"]),
    (nsq.ParaboloidGeometry, {"radius": 5.0, "aperture_radius": NAN}, ValueError, ["aperture_radius", "nan"]),
    (nsq.FinitePlaneGeometry, {"width": -1.0}, ValueError, ["width", "-1.0", "> 0"]),
    (nsq.FinitePlaneGeometry, {"aperture_radius": 0.0}, ValueError, ["aperture_radius", "0.0", "> 0"]),
    (nsq.AnnularPlaneGeometry, {"inner_radius": 2.0, "outer_radius": 2.0}, ValueError, ["outer_radius", "above"]),
    (nsq.AnnularPlaneGeometry, {"inner_radius": -1.0, "outer_radius": 2.0}, ValueError, ["inner_radius", "-1.0"]),
    (nsq.CylindricalFrustumGeometry, dict(r_front=1, r_back=1, z_front=2, z_back=1), ValueError, ["z_back", "1", "2"]),
    (nsq.CylindricalFrustumGeometry, dict(r_front=0, r_back=0, z_front=0, z_back=1), ValueError, ["r_front", "> 0"]),
    (nsq.CylindricalFrustumGeometry, dict(r_front=-1, r_back=1, z_front=0, z_back=1), ValueError, ["r_front", "-1"]),
    # mirrors and coatings
    (nsq.MirrorConfig, {"radius": -100.0}, TypeError, ["reflectance"]),
    (mirror, {"reflectance": None}, TypeError, ["reflectance", "None", "mirror takes"]),
    (mirror, {"reflectance": 1.2}, ValueError, ["reflectance", "1.2", "<= 1"]),
    (mirror, {"reflectance": NAN}, ValueError, ["reflectance", "nan"]),
    (mirror, {"aperture_radius": 101.0}, ValueError, ["aperture_radius", "101", "at most 100"]),
    (mirror, {"surface": nsq.SurfaceConfig(coating=nsq.SimpleCoating(0.5))}, ValueError, ["coating", "M.surface"]),
    (mirror, {"surface": nsq.SurfaceConfig(reflectance=0.5)}, ValueError, ["reflectance", "M.surface"]),
    (
        mirror,
        {"surface": nsq.SurfaceConfig(interaction=nsq.InteractionType.ABSORBING)},
        ValueError,
        ["interaction", "REFLECTIVE"],
    ),
    (face, {"interaction": REFLECTIVE}, ValueError, ["reflectance", "L.front", "None"]),
    (edge, {"interaction": REFLECTIVE}, ValueError, ["reflectance", "L.edge", "None"]),
    (face, {"reflectance": 0.5}, ValueError, ["reflectance", "L.front", "REFLECTIVE"]),
    (edge, {"coating": nsq.SimpleCoating(0.9)}, ValueError, ["coating", "L.edge", "REFRACTIVE"]),
    (edge, {"aperture_radius": 5.0}, ValueError, ["aperture_radius", "L.edge", "5"]),
    (face, {"interaction": "mirror"}, TypeError, ["interaction", "'mirror'", "InteractionType"]),
    (face, {"coating": 0.9}, TypeError, ["coating", "0.9", "transmittance"]),
    (face, {"scatter_fraction": 1.5}, ValueError, ["scatter_fraction", "1.5", "<= 1"]),
    (face, {"bsdf": object()}, TypeError, ["bsdf", "object", "LambertianBSDF"]),
    (face, {"scatter_fraction": torch.tensor(-0.1, requires_grad=True)}, ValueError, ["scatter_fraction", ">= 0"]),
    (nsq.SimpleCoating, {"transmittance": 1.5}, ValueError, ["transmittance", "1.5", "<= 1"]),
    (nsq.SimpleCoating, {"transmittance": 0.9, "reflectance": 0.2}, ValueError, ["reflectance", "1.1", "<= 1"]),
    # spectra
    (nsq.Spectrum, {"wavelengths": [550.0], "weights": [1.0]}, ValueError, ["wavelengths", "550", "µm", "0.55"]),
    (nsq.Spectrum.monochromatic, {"wavelength": 587.6}, ValueError, ["wavelengths", "587.6", "µm"]),
    (nsq.Spectrum.monochromatic, {"wavelength": 0.0}, ValueError, ["wavelengths", "0.0", "> 0"]),
    (nsq.Spectrum.monochromatic, {"wavelength": NAN}, ValueError, ["wavelengths", "nan"]),
    (nsq.Spectrum.monochromatic, {"wavelength": "green"}, TypeError, ["wavelengths", "green"]),
    (nsq.Spectrum, {"wavelengths": [0.5, 0.6], "weights": [0, 0]}, ValueError, ["weights", "sum to 0", "sum > 0"]),
    (nsq.Spectrum, {"wavelengths": [0.5, 0.6], "weights": [1, -1]}, ValueError, ["weights", "-1", ">= 0"]),
    (nsq.Spectrum, {"wavelengths": [0.5, 0.6], "weights": [1, NAN]}, ValueError, ["weights", "nan"]),
    (nsq.Spectrum, {"wavelengths": [0.5, 0.6], "weights": [1]}, ValueError, ["weights", "(2,)", "(1,)"]),
    (nsq.Spectrum, {"wavelengths": [], "weights": []}, ValueError, ["wavelengths", "shape (0,)"]),
    (nsq.Spectrum, {"wavelengths": [[0.5]], "weights": [[1]]}, ValueError, ["wavelengths", "shape (1, 1)"]),
    (nsq.Spectrum, {"wavelengths": [0.5], "weights": [True]}, TypeError, ["weights", "real numbers"]),
    (nsq.Spectrum, {"wavelengths": [0.5], "weights": None}, TypeError, ["weights", "None"]),
    # sources
    (beam, {"spectrum": 0.55}, TypeError, ["spectrum", "0.55", "Spectrum"]),
    (beam, {"total_flux": -1.0}, ValueError, ["total_flux", "-1.0", ">= 0"]),
    (beam, {"total_flux": NAN}, ValueError, ["total_flux", "nan"]),
    (beam, {"total_flux": torch.ones(1)}, ValueError, ["total_flux", "shape (1,)"]),
    (beam, {"total_flux": FLOAT16}, TypeError, ["total_flux", "float16"]),
    (beam, {"total_flux_lumens": -1.0}, ValueError, ["total_flux_lumens", "-1.0", ">= 0"]),
    (beam, {"aperture_radius": -1.0}, ValueError, ["aperture_radius", "-1.0", "> 0"]),
    (beam, {"profile": "gausian"}, ValueError, ["profile", "'gausian'", "Did you mean 'gaussian'?"]),
    (beam, {"profile": None}, TypeError, ["profile", "None"]),
    (beam, {"gaussian_sigma": 1.0}, ValueError, ["gaussian_sigma", "1.0", "profile='gaussian'"]),
    (beam, {"profile": "gaussian", "gaussian_sigma": 0.0}, ValueError, ["gaussian_sigma", "0.0", "> 0"]),
    (beam, {"medium": 1.33}, TypeError, ["medium", "1.33", "NSQMaterial"]),
    (point, {"half_angle_deg": 0.0}, ValueError, ["half_angle_deg", "0.0", "> 0"]),
    (point, {"half_angle_deg": 181.0}, ValueError, ["half_angle_deg", "181.0", "<= 180"]),
    (point, {"half_angle_deg": NAN}, ValueError, ["half_angle_deg", "nan"]),
    (panel, {"width": 0.0}, ValueError, ["width", "0.0", "> 0"]),
    (panel, {"height": -1.0}, ValueError, ["height", "-1.0", "> 0"]),
    (panel, {"aperture_radius": -1.0}, ValueError, ["aperture_radius", "-1.0", "> 0"]),
    (nsq.PointSource, {"cs": None, "spectrum": GREEN}, TypeError, ["cs", "NoneType", "CoordinateSystem"]),
    # detectors
    (screen, {"width": -10.0}, ValueError, ["width", "-10.0", "> 0"]),
    (screen, {"height": NAN}, ValueError, ["height", "nan"]),
    (screen, {"num_pixels_x": 0}, ValueError, ["num_pixels_x", "0", ">= 1"]),
    (screen, {"num_pixels_y": 2.5}, ValueError, ["num_pixels_y", "2.5", "whole number"]),
    (screen, {"num_pixels_y": True}, TypeError, ["num_pixels_y", "True", "whole number"]),
    (screen, {"splat": "bilnear"}, ValueError, ["splat", "'bilnear'", "Did you mean 'bilinear'?"]),
    (screen, {"splat_sigma": NAN}, ValueError, ["splat_sigma", "nan"]),
    (screen, {"absorb": "yes"}, TypeError, ["absorb", "'yes'", "True or False"]),
    (rays, {"width": 0.0}, ValueError, ["width", "0.0", "> 0"]),
    (rays, {"max_rays": -1}, ValueError, ["max_rays", "-1", ">= 0"]),
    (nsq.RayDatabaseDetector, {"cs": CS(), "geometry": None}, TypeError, ["geometry", "NoneType"]),
    # frames, surfaces and the policy
    (CS, {"x": NAN}, ValueError, ["x", "nan", "finite"]),
    (CS, {"rx": math.inf}, ValueError, ["rx", "inf", "finite"]),
    (CS, {"z": torch.ones(1)}, ValueError, ["z", "shape (1,)"]),
    (CS, {"z": torch.tensor(1)}, TypeError, ["z", "int64"]),
    (nsq.AbsorbingComponent, {"cs": 3, "geometry": nsq.PlaneGeometry()}, TypeError, ["cs", "int"]),
    (nsq.AbsorbingComponent, {"cs": CS(), "geometry": "plane"}, TypeError, ["geometry", "str"]),
    (nsq.SamplingPolicy, {"reflect_prob": "fresnell"}, ValueError, ["reflect_prob", "Did you mean 'fresnel'?"]),
    (nsq.SamplingPolicy, {"reflect_prob": 0.0}, ValueError, ["reflect_prob", "0.0", "between 0 and 1"]),
    (nsq.SamplingPolicy, {"reflect_prob": 1.5}, ValueError, ["reflect_prob", "1.5", "<= 1"]),
    (nsq.SamplingPolicy, {"reflect_prob": None}, TypeError, ["reflect_prob", "None"]),
    (nsq.SamplingPolicy, {"rr_start_flux": -1.0}, ValueError, ["rr_start_flux", "-1.0", ">= 0"]),
    (nsq.SamplingPolicy, {"split_depth": 0.5}, ValueError, ["split_depth", "0.5", "whole number"]),
]


def _label(case):
    return "-".join([case[0].__name__, *(f"{k}={str(v)[:20]}" for k, v in case[1].items())])


@pytest.mark.parametrize(("build", "arguments", "error", "words"), CASES, ids=map(_label, CASES))
def test_bad_arguments(build, arguments, error, words):
    with pytest.raises(error) as caught:
        build(**arguments)
    for word in words:
        assert word in str(caught.value)


def scene():
    made = nsq.NSQScene()
    made.add_source("S", CS(), beam())
    made.add_lens("L", CS(z=20.0), nsq.LensConfig(50.0, -50.0, 5.0, GLASS, 10.0))
    made.add_detector("D", CS(z=80.0), screen())
    return made


def test_a_scene_needs_sources_and_detectors_in_this_order():
    made = nsq.NSQScene()
    for method in (made.validate, lambda: made.trace(10)):
        with pytest.raises(ValueError, match="no sources"):
            method()
    made.add_source("S", CS(), beam())
    for method in (made.validate, lambda: made.trace(10)):
        with pytest.raises(ValueError, match="no detectors"):
            method()


@pytest.mark.parametrize(
    ("num_rays", "error"),
    [
        (0, ValueError), (-1, ValueError), (2.5, ValueError), (NAN, ValueError), (10**20, ValueError),
        ("10", TypeError), (None, TypeError),
    ],
)  # fmt: skip
def test_numbers_of_rays(num_rays, error):
    with pytest.raises(error, match="num_rays got .* whole number"):
        scene().trace(num_rays)


def reassign(path, value):
    def change(made):
        target = made
        *steps, last = path
        for step in steps:
            target = target[step] if isinstance(step, int) else getattr(target, step)
        setattr(target, last, value)

    return change


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (reassign(["sources", 0, "aperture_radius"], -1.0), ValueError, ["source 'S'", "aperture_radius", "-1.0"]),
        (reassign(["sources", 0, "profile"], "flat"), ValueError, ["source 'S'", "profile", "'flat'"]),
        (reassign(["sources", 0, "spectrum"], None), TypeError, ["source 'S'", "spectrum"]),
        (reassign(["surfaces", 0, "geometry", "radius"], NAN), ValueError, ["component 'L'", "radius", "nan"]),
        (reassign(["surfaces", 0, "geometry", "radius"], 5.0), ValueError, ["'L'", "aperture_radius", "at most 5"]),
        (reassign(["surfaces", 1, "cs", "z"], 0.1), ValueError, ["'L'", "thickness", "0.1"]),
        (reassign(["surfaces", 0, "material_back"], 1.5), TypeError, ["'L'", "material_back"]),
        (reassign(["surfaces", 0, "coating"], 0.5), TypeError, ["'L'", "coating"]),
        (reassign(["surfaces", 0, "bsdf"], object()), TypeError, ["bsdf", "object", "LambertianBSDF"]),
        (reassign(["detectors", 0, "splat"], "soft"), ValueError, ["detector 'D'", "splat", "'soft'"]),
        (reassign(["detectors", 0, "num_pixels_x"], 0), ValueError, ["detector 'D'", "num_pixels_x"]),
        (reassign(["detectors", 0, "width"], torch.ones(1)), ValueError, ["detector 'D'", "width", "shape (1,)"]),
        (reassign(["sampling_policy"], "fresnel"), TypeError, ["sampling_policy", "str"]),
    ],
)
def test_what_was_reassigned_is_checked_before_a_trace(change, error, words):
    made = scene()
    change(made)
    for method in (made.validate, lambda: made.trace(10)):
        with pytest.raises(error) as caught:
            method()
        for word in words:
            assert word in str(caught.value)


def test_names_that_nothing_has_say_the_nearest():
    scene = nsq.NSQScene()
    scene.add_source("beam", CS(), beam())
    scene.add_component("lens", lens())
    scene.add_detector("film", CS(z=60.0), nsq.IrradianceDetectorConfig(8.0, 8.0, 4, 4))
    result = scene.trace(100, seed=1)
    with pytest.raises(KeyError, match=r"name got 'flim', which no detector has; .* Did you mean 'film'\?"):
        result.detectors["flim"]
    with pytest.raises(KeyError, match=r"name got 'L\.frnt', which no surface has; .* Did you mean 'L\.front'\?"):
        result.surfaces["L.frnt"]
    assert result.detectors.get("flim") is None
    door = nsq.warp.prepare(scene, {"shift": (scene.detectors[0].cs, "z")})
    with pytest.raises(KeyError, match=r"^arrays lack the parameters \['shift'\]$"):
        door.trace({}, 100)
    with pytest.raises(AttributeError, match=r"no attribute 'LensConfg'. Did you mean 'LensConfig'\?"):
        nsq.LensConfg  # noqa: B018
    with pytest.raises(ValueError, match="Say VACUUM for no medium"):
        nsq.NSQMaterial.from_glass("Air")


def test_attributes_that_a_shape_or_a_pose_has_not_are_refused():
    """A misspelt one would be set beside the number that was meant, which would not move."""
    shape, pose = nsq.ConicGeometry(50.0, 0.0, 10.0), CS()
    with pytest.raises(AttributeError, match=r"ConicGeometry has no attribute 'radus'.* Did you mean 'radius'\?"):
        shape.radus = 60.0
    with pytest.raises(AttributeError, match=r"CoordinateSystem has no attribute 'zz'.* Did you mean 'z'\?"):
        pose.zz = 1.0
    shape.radius, pose.z = 60.0, 1.0
    assert (shape.radius, pose.z) == (60.0, 1.0)
