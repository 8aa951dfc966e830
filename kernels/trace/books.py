"""Bookkeeping after an interaction, in 64-bit fixed point: integer sums give the same bits in any order.

What a ray loses is booked as the difference of its flux in quanta before and after, so that the ledger closes exactly.
None of this is differentiated.
"""

import functools

import warp as wp

from kernels.modules import kernel_module
from kernels.precision import DOUBLES, INT, LONG, add_long, bundle, ld_table, ldi, ldi_moved, select_int, sti
from kernels.rng import join_key, pcg32, uniform_of
from kernels.trace import layout as at

_COUNT = """
#if defined(__CUDA_ARCH__)
    return atomicAdd(a.data + j, v);
#else
    wp::int32 old = a.data[j];
    a.data[j] = old + v;
    return old;
#endif
"""


@wp.func_native(_COUNT)
def count_up(a: INT, j: int, v: wp.int32) -> wp.int32: ...


@wp.func_native("a.data[(long long)i] = ::rint(v);")
def st_whole(a: DOUBLES, i: int, v: wp.float64):
    """Store a number rounded to a whole one: as a double, since tables are read as 64-bit integers (see `ld_table`)."""
    ...


@wp.func
def key_of(ints: INT, base: wp.uint64, own_keys: int, n: wp.int64, i: int):
    """A ray's part of its random keys: its id, or where rays split a key of its own."""
    key = base + wp.uint64(ldi(ints, wp.static(at.SLOT), n, i))
    if own_keys == 1:
        key = join_key(ldi(ints, wp.static(at.KEY_LOW), n, i), ldi(ints, wp.static(at.KEY_HIGH), n, i))
    return key


_ENTER = """
    const wp::int32* __restrict__ word = words.data;
    const wp::float64* __restrict__ amount = amounts.data;
#if defined(__CUDA_ARCH__)
    for (wp::int32 i = start; i < stop; ++i) {
        wp::int32 w = word[i];
        unsigned long long* cell = (unsigned long long*)(books.data + (long long)(w >> 3) * columns);
        atomicAdd(cell, 1ull);
        atomicAdd(cell + 1, (unsigned long long)(wp::int64)amount[i]);
        if (w & 1) living.data[atomicAdd(counters.data, 1)] = i;
        if (w & 2) landed.data[atomicAdd(counters.data + 1, 1)] = i;
        if (w & 4) rare.data[atomicAdd(counters.data + 2, 1)] = i;
    }
#else
    // Neighbours mostly hit the same surface, and a sum in memory takes longer to be read back than a ray takes here:
    // so there are two of each, for even and odd cells, and for few surfaces they are at hand.
    wp::int64 sums[2][64][2];
    const bool few = rows <= 64;
    for (wp::int32 k = 0; few && k < rows; ++k)
        sums[0][k][0] = sums[0][k][1] = sums[1][k][0] = sums[1][k][1] = 0;
    long long alive = counters.data[0], down = counters.data[1], odd = counters.data[2];
    for (wp::int32 i = start; i < stop; ++i) {
        wp::int32 w = word[i];
        wp::int64* cell = few ? sums[i & 1][w >> 3] : books.data + (long long)(w >> 3) * columns;
        cell[0] += 1;
        cell[1] += (wp::int64)amount[i];
        living.data[alive] = i;
        landed.data[down] = i;
        rare.data[odd] = i;
        alive += w & 1;
        down += (w >> 1) & 1;
        odd += (w >> 2) & 1;
    }
    for (wp::int32 k = 0; few && k < rows; ++k) {
        books.data[(long long)k * columns] += sums[0][k][0] + sums[1][k][0];
        books.data[(long long)k * columns + 1] += sums[0][k][1] + sums[1][k][1];
    }
    counters.data[0] = (wp::int32)alive;
    counters.data[1] = (wp::int32)down;
    counters.data[2] = (wp::int32)odd;
#endif
"""


@wp.func_native(_ENTER)
def enter(
    words: INT, amounts: DOUBLES, books: LONG, rows: int, columns: int, living: INT, landed: INT, rare: INT,
    counters: INT, start: int, stop: int,
):  # fmt: skip
    """Book the rays ``start <= i < stop`` to the rows that their words name, and list them as the words say.

    The numbers in the code are those of the words' bits and of the columns and counters, all of which begin at 0. Lists
    need a spare cell.
    """
    ...


@wp.func
def book_stray(row_books: LONG, cell: int, flux: wp.int64, key: int):
    """Enter a ray that arrived in another medium than the one on its side of the surface."""
    k = wp.int64(key)
    add_long(row_books, cell + wp.static(at.ROW_STRAYS), wp.int64(1))
    add_long(row_books, cell + wp.static(at.ROW_STRAY_FLUX), flux)
    add_long(row_books, cell + wp.static(at.ROW_STRAY_KEY), k)
    add_long(row_books, cell + wp.static(at.ROW_STRAY_KEY2), k * k)


# What `note` finds of a ray: that it goes on, that it reached a detector, and that `book_rare` must look at it. Above
# these bits stands the row to book it to.
GOES_ON, LANDS, RARE = 1, 2, 4
ROW_SHIFT = 3
# rows of the books behind those of the scene: what escaped, and what is not booked to a row
ESCAPED_ROW, NO_ROW = 0, 1
NUM_SPARE_ROWS = 2
_MOST = 4.0e18  # quanta of a ray


@functools.cache
def note_kernel(precision):
    """First part of the books, vectorised: a ray's flux in quanta, and a word that says what is to be entered."""
    b = bundle(precision)
    real, array, ld = b.real, b.array, b.ld

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}"), enable_backward=False)
    def note(
        ints: INT, floats_out: array, ints_out: INT, aux: array, row_hit: INT, words: INT, amounts: DOUBLES,
        scale: wp.float64, faint: real, thins: int, keeps: int, num_rows: int, last_bounce: int, n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        alive = ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE)
        # what is not alive before is not alive behind
        living = ldi(ints_out, wp.static(at.STATE), n, i) == wp.static(at.ALIVE)
        word = ldi(ints_out, wp.static(at.MEDIUM), n, i)
        row = ldi(row_hit, 0, n, i)
        amount = wp.float64(ld(aux, wp.static(at.FLUX_AT_HIT), n, i)) * scale
        hit = row >= 0
        # a collision; media that absorb or scatter; a surface that may keep some; the last bounce; roulette
        rare = select_int(hit, word & wp.static(at.STRAY | at.UNDERFLOW), select_int(living, 1, 0)) + thins
        kept = keeps + (word & wp.static(at.KEEPS)) + last_bounce
        kept = kept + select_int(ld(floats_out, wp.static(at.FLUX), n, i) < faint, 1, 0)
        rare = rare + select_int(living, kept, 0)
        # also false for NaN
        rare = rare + select_int(wp.abs(amount) < wp.float64(wp.static(_MOST)), 0, 1)
        lands = select_int(hit, select_int((word & wp.static(at.LANDS)) > 0, wp.static(LANDS), 0), 0)
        own = select_int(hit, row, num_rows + wp.static(ESCAPED_ROW))
        own = select_int(rare == 0, own, num_rows + wp.static(NO_ROW))
        entry = (own << wp.static(ROW_SHIFT)) + select_int(rare == 0, 0, wp.static(RARE)) + lands
        entry = entry + select_int(living, select_int(last_bounce == 0, wp.static(GOES_ON), 0), 0)
        entry = select_int(alive, entry, (num_rows + wp.static(NO_ROW)) << wp.static(ROW_SHIFT))
        sti(words, 0, n, i, entry)
        st_whole(amounts, i, amount)

    return note


@functools.cache
def book_kernels(precision):
    """``(book, book_rare)``: the second part of the books, and what needs more than an entry in a row.

    One thread of `book` works through a stretch of rays. What escapes is booked to a row behind all others; what is
    detected or absorbed is not entered twice, since `settle` has it from the rows. ``living`` lists the cells of rays
    that go on, in order, ``landed`` those that reached a detector, and ``rare`` those that are left to `book_rare`.
    """
    b = bundle(precision)
    real, array, ld = b.real, b.array, b.ld
    module = kernel_module(f"kernels.trace.{precision}")

    @wp.func
    def quanta(value: real, scale: wp.float64, ledger: LONG):
        q = wp.float64(value) * scale
        # also false for NaN
        if wp.abs(q) < wp.float64(wp.static(_MOST)):
            return wp.int64(wp.rint(q))
        add_long(ledger, wp.static(at.BAD_COUNT), wp.int64(1))
        return wp.int64(0)

    @wp.kernel(module=module, enable_backward=False)
    def book(
        words: INT, amounts: DOUBLES, row_books: LONG, num_rows: int, living: INT, landed: INT, rare: INT,
        counters: INT, count: int, stretches: int,
    ):  # fmt: skip
        stretch = wp.tid()
        start = int(wp.int64(count) * wp.int64(stretch) / wp.int64(stretches))
        stop = int(wp.int64(count) * wp.int64(stretch + 1) / wp.int64(stretches))
        enter(
            words, amounts, row_books, num_rows + wp.static(NUM_SPARE_ROWS), wp.static(at.NUM_ROW_BOOKS), living,
            landed, rare, counters, start, stop,
        )  # fmt: skip

    @wp.kernel(module=module, enable_backward=False)
    def book_rare(
        floats: array, ints: INT, floats_out: array, ints_out: INT, aux: array, row_hit: INT, rows: LONG,
        classes: INT, ledger: LONG, row_books: LONG, counters: INT, rare: INT,
        scale: wp.float64, faint: real, exact: int, num_rows: int, last_bounce: int, n: wp.int64,
    ):  # fmt: skip
        i = ldi(rare, 0, n, wp.tid())
        state = ldi(ints_out, wp.static(at.STATE), n, i)
        row = ldi(row_hit, 0, n, i)
        before = quanta(ld(floats, wp.static(at.FLUX), n, i), scale, ledger)
        leaving = ld(floats_out, wp.static(at.FLUX), n, i)
        after = wp.int64(0)
        if state == wp.static(at.ALIVE):
            after = quanta(leaving, scale, ledger)
        if row >= 0 or state == wp.static(at.ESCAPED):
            cell = wp.where(row >= 0, row, num_rows + wp.static(ESCAPED_ROW)) * wp.static(at.NUM_ROW_BOOKS)
            arriving = quanta(ld(aux, wp.static(at.FLUX_AT_HIT), n, i), scale, ledger)
            add_long(ledger, wp.static(at.BULK), before - arriving)
            add_long(row_books, cell + wp.static(at.ROW_HITS), wp.int64(1))
            add_long(row_books, cell + wp.static(at.ROW_INCIDENT), arriving)
            word = ldi(ints_out, wp.static(at.MEDIUM), n, i)
            # set at refracting surfaces alone
            if row >= 0 and (word & wp.static(at.STRAY | at.UNDERFLOW)) > 0:
                medium = ldi(ints, wp.static(at.MEDIUM), n, i) & wp.static(at.MEDIUM_MASK)
                side = wp.where((word & wp.static(at.FROM_BACK)) > 0, 1, 0)
                own = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.FRONT) + side)
                if classes[medium] != classes[own]:
                    book_stray(row_books, cell, arriving, 2 * medium + side)
                if (word & wp.static(at.UNDERFLOW)) > 0:
                    add_long(ledger, wp.static(at.UNDERFLOW_COUNT), wp.int64(1))
            if row >= 0 and state == wp.static(at.ALIVE):
                kind = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.KIND))
                lobe = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.LOBE))
                if kind == wp.static(at.COATED) or kind == wp.static(at.MIRROR) or lobe >= 0:
                    lost = arriving - after
                    if exact == 0:
                        lost = quanta(ld(aux, wp.static(at.LOSS), n, i), scale, ledger)
                    add_long(ledger, wp.static(at.COATING_FLUX), lost)
                    add_long(row_books, cell + wp.static(at.ROW_LOSS), lost)
        else:
            # a collision inside a medium
            add_long(ledger, wp.static(at.BULK), before - after)
        if state == wp.static(at.ALIVE):
            if last_bounce == 1:
                add_long(ledger, wp.static(at.DEPTH_FLUX), after)
                add_long(ledger, wp.static(at.DEPTH_COUNT), wp.int64(1))
            elif leaving > real(0.0) and leaving < faint:
                count_up(counters, wp.static(at.FAINT), 1)

    return book, book_rare


def settle(ledger, row_books, rows):
    """Enter into the ledger what the books of the rows say, and close them.

    ``row_books`` are those of the scene's rows and the spare ones, ``rows`` (rows, integers) the scene's. Returns the
    ledger and the books of the scene's rows.
    """
    ledger, books, escaped = ledger.copy(), row_books[: len(rows)].copy(), row_books[len(rows) + ESCAPED_ROW]
    ledger[at.ESCAPE_COUNT], ledger[at.ESCAPE_FLUX] = escaped[at.ROW_HITS], escaped[at.ROW_INCIDENT]
    kind = rows[:, at.KIND]
    absorbers = kind == at.ABSORBER
    ledger[at.ABSORBED_COUNT] = books[absorbers, at.ROW_HITS].sum()
    ledger[at.ABSORBED_FLUX] = books[absorbers, at.ROW_INCIDENT].sum()
    books[absorbers, at.ROW_LOSS] = books[absorbers, at.ROW_INCIDENT]
    ledger[at.DETECTED_FLUX] = books[kind >= at.DETECTOR, at.ROW_INCIDENT].sum()
    ledger[at.TAPPED_FLUX] = books[kind == at.TAP, at.ROW_INCIDENT].sum()
    return ledger, books


@functools.cache
def roulette_kernel(precision):
    """Unbiased end for faint rays: survive with q = max(flux / threshold, 0.05), and carry flux / q from there on.

    ``boost`` keeps the factor, which the backward pass multiplies gradients with; the decision itself has none.
    """
    b = bundle(precision)
    real, array, ld, st, st_plain = b.real, b.array, b.ld, b.st, b.st_plain
    uniform = uniform_of(precision)

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}"), enable_backward=False)
    def roulette(
        floats: array, ints: INT, boost: array, ledger: LONG, counters: INT, scale: wp.float64, faint: real,
        base: wp.uint64, init: wp.uint64, key: wp.uint64, jump_a: wp.uint64, jump_c: wp.uint64, own_keys: int,
        n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        flux = ld(floats, wp.static(at.FLUX), n, i)
        factor = real(1.0)
        if ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE) and flux > real(0.0) and flux < faint:
            q = wp.max(flux / faint, real(0.05))
            if uniform(pcg32(key_of(ints, base, own_keys, n, i), init, key, jump_a, jump_c)) < q:
                factor = real(1.0) / q
                # what a survivor gains was booked as lost with those that were killed
                gained = wp.int64(wp.rint(wp.float64(flux * factor) * scale)) - wp.int64(
                    wp.rint(wp.float64(flux) * scale)
                )
                add_long(ledger, wp.static(at.ROULETTE_FLUX), -gained)
            else:
                factor = real(0.0)
                sti(ints, wp.static(at.STATE), n, i, wp.static(at.DEAD))
                given_up = wp.int64(wp.rint(wp.float64(flux) * scale))
                add_long(ledger, wp.static(at.ROULETTE_FLUX), given_up)
                add_long(ledger, wp.static(at.KILLED_FLUX), given_up)
                add_long(ledger, wp.static(at.ROULETTE_COUNT), wp.int64(1))
                count_up(counters, wp.static(at.LIVE), -1)
            st(floats, wp.static(at.FLUX), n, i, flux * factor)
        st_plain(boost, 0, n, i, factor)

    return roulette


@functools.cache
def compact_kernels(precision, columns=at.PLAIN_INTS):
    """``(select, gather)``: list the cells of live rays, then move them, with so many integer columns, to the front of
    another set of arrays."""
    b = bundle(precision)
    array, ld_moved, st = b.array, b.ld_moved, b.st
    module = kernel_module(f"kernels.trace.{precision}")

    def gather(floats: array, ints: INT, kept: INT, floats_out: array, ints_out: INT, n: wp.int64):
        j = wp.tid()
        i = ldi_moved(kept, 0, n, j)
        for c in range(wp.static(at.NUM_FLOATS)):
            st(floats_out, c, n, j, ld_moved(floats, c, n, i))
        for c in range(wp.static(columns)):
            sti(ints_out, c, n, j, ldi_moved(ints, c, n, i))

    return select_kernel(precision), wp.kernel(gather, name=f"gather_{columns}", module=module, enable_backward=False)


@functools.cache
def select_kernel(precision):
    """Lists the cells of live rays, in order."""

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}"), enable_backward=False)
    def select_live(ints: INT, kept: INT, counter: INT, n: wp.int64):
        i = wp.tid()
        if ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE):
            kept[count_up(counter, 0, 1)] = i

    return select_live
