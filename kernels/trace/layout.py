"""Where everything lies: columns of the ray state, codes of surfaces, cells of the ledger.

A batch is a structure of arrays. Floats and integers of a ray lie in two flat arrays, column after column.
"""

# columns of the float state: position (mm), direction cosines, flux (W), path length (mm)
X, Y, Z, L, M, N, FLUX, PATH = range(8)
NUM_FLOATS = 8

# columns of the integer state; the last three are used where rays split: the halves of a key of its own, and how many
# live rays may still come of it
SLOT, WAVELENGTH, MEDIUM, LAST, STATE, KEY_LOW, KEY_HIGH, ALLOWANCE = range(8)
NUM_INTS = 8
# those that a ray has which does not split
PLAIN_INTS = KEY_LOW

# columns of what a search finds: the nearest distance, and that of the nearest other surface
NEAREST, RUNNER_UP = range(2)
NUM_DISTANCES = 2

# The column MEDIUM holds the number of the medium that a ray is in and, in the bits above it, what else is known of its
# way: that it is inside a solid it went into; of its last surface, that it came from the back, that it came through
# another medium than the one there, and that it left for vacuum without having gone into anything; and that the last
# surface is a detector, or one that may keep some of the flux.
MEDIUM_MASK = (1 << 24) - 1
INSIDE, FROM_BACK, STRAY, UNDERFLOW, LANDS, KEEPS = (1 << bit for bit in range(24, 30))

# What the column of rows found by a search holds besides rows: -1 for nothing met, and COLLISION - row for a collision
# in a medium before the surface of that row, with -1 for no surface ahead. LAST is the row that a ray starts on, -1 for
# a source, and AFLOAT for a point inside a medium, which is on no surface: from there every distance counts.
COLLISION, AFLOAT = -3, -2

# what is known of the scatter in a medium, for each line: collisions per mm, albedo and mean cosine
RATE, ALBEDO, ASYMMETRY = range(3)
NUM_MEDIUM = 3

# values of the column STATE
DEAD, ALIVE, ESCAPED, ABSORBED, DETECTED, REFUSED = range(6)

# columns of what an interaction leaves behind for the books
FLUX_AT_HIT, LOSS = range(2)
NUM_AUX = 2

# kinds of a row: what happens to a ray that hits it
REFRACT, COATED, MIRROR, ABSORBER, DETECTOR, TAP = range(6)
# integer columns of a row; LOBE is the code of its scatter lobe or -1, TABLE where that lobe's table begins, READER the
# detector that it belongs to or -1, SAG the code of its sag or -1 for a quadric, SAG_BLOCK where that sag's numbers
# begin, ANGLES where its coating's table over angle begins or -1, AIMS where the targets of its scatter begin or -1
KIND, FRONT, BACK, LOBE, TABLE, READER, SAG, SAG_BLOCK, ANGLES, AIMS = range(10)
NUM_ROW_INTS = 10
# columns of what is known of a hit on a sag: distance and normal
NUM_GIVEN = 4
# differentiable numbers of a row's scatter: the share of flux scattered and the lobe's reflectance; then the
# probability that a lobe lies behind the surface, which is not differentiated
SCATTER_SHARE, LOBE_SHARE, LOBE_BEHIND = range(3)
NUM_SCATTER = 3
# columns of a scattered ray: direction and flux
NUM_SCATTERED = 4

# columns of an interaction's per-ray gradients: ten numbers of the surface, then what was looked up in tables
ACC_INDEX_FRONT, ACC_INDEX_BACK, ACC_EXTINCTION, ACC_REFLECTANCE, ACC_TRANSMITTANCE = 10, 11, 12, 13, 14
# two neighbours of an angle in a coating's table: reflectances, then transmittances
ACC_ANGLE = 15
ACC_RATE = 19
NUM_ACC = 20

# cells of the ledger (fixed point, except the counts)
BULK, ESCAPE_FLUX, DEPTH_FLUX, ROULETTE_FLUX, ABSORBED_FLUX, COATING_FLUX, DETECTED_FLUX, TAPPED_FLUX, KILLED_FLUX = (
    range(9)
)
ESCAPE_COUNT, DEPTH_COUNT, ROULETTE_COUNT, ABSORBED_COUNT, BAD_COUNT = range(9, 14)
REFUSED_COUNT, UNDERFLOW_COUNT = 14, 15
NUM_LEDGER = 16

# what is kept for each row: hits, incident flux, flux that stayed there (fixed point); and of rays that arrive in
# another medium than the one on their side, how many, their flux, and the sum of 2 medium + (0 from the front, 1 from
# the back) and of its square, which tell whether all were alike
ROW_HITS, ROW_INCIDENT, ROW_LOSS, ROW_STRAYS, ROW_STRAY_FLUX, ROW_STRAY_KEY, ROW_STRAY_KEY2 = range(7)
NUM_ROW_BOOKS = 7

# counters that steer the loop of bounces
LIVE, LANDED, RARE, FAINT = range(4)
NUM_COUNTERS = 4

# detectors: differentiable numbers (origin, x axis, y axis, width, height) and integers. SPLAT says how a hit is spread
# over pixels, READS what a pixel is (the code of the detector's row), WRAPS that the pixels close in x, FIRST_ROW the
# first row of its surface
NUM_DETECTOR_NUMBERS = 11
PIXELS_X, PIXELS_Y, SPLAT, OFFSET, RADIUS, READS, WRAPS, FIRST_ROW = range(8)
NUM_DETECTOR_INTS = 8
HARD, BILINEAR, GAUSSIAN, RECORD = range(4)

# sources: rotation (row-major), origin, flux of a ray, then the shape's own numbers
SOURCE_FLUX, SOURCE_SHAPE = 12, 13
NUM_SHAPE = 4
NUM_SOURCE = SOURCE_SHAPE + NUM_SHAPE


def born_in(medium):
    """The column MEDIUM of a ray that starts in the medium of this number; 0 is vacuum."""
    return medium | (INSIDE if medium else 0)
