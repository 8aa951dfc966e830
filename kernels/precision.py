"""Float32 and float64 bundles: the types and the small native functions that kernels are built from.

Warp's own array indexing handles negative indices, which keeps the CPU compiler from vectorising a kernel. The loads
and stores here go through the plain pointer. A structure of arrays is one flat array, column after column; ``ld(a, c,
n, i)`` reads cell ``i`` of column ``c`` where columns are ``n`` apart.

The adjoint of a load *assigns* the cell's gradient instead of adding to it, so gradient columns need no clearing: a
kernel must therefore read each cell at most once. What a store writes is there already when an adjoint runs, so an
adjoint stores nothing again but gradients.
"""

import functools
from types import SimpleNamespace

import warp as wp

INT = wp.array(dtype=wp.int32)
LONG = wp.array(dtype=wp.int64)
DOUBLES = wp.array(dtype=wp.float64)

REALS = {"float32": wp.float32, "float64": wp.float64}

_EXP = """
    {T} k = (x * ({T})(1.4426950408889634) + ({T})(x < 0 ? -0.5 : 0.5));
    wp::int32 m = (wp::int32)k;
    k = ({T})(m);
    {T} r = x - k * ({T})(0.693145751953125);
    r = r - k * ({T})(1.4286068203094172e-06);
    {T} e = ({T})(1.6059043836821613e-10);
    e = e * r + ({T})(2.08767569878681e-09);
    e = e * r + ({T})(2.505210838544172e-08);
    e = e * r + ({T})(2.755731922398589e-07);
    e = e * r + ({T})(2.7557319223985893e-06);
    e = e * r + ({T})(2.48015873015873e-05);
    e = e * r + ({T})(0.0001984126984126984);
    e = e * r + ({T})(0.001388888888888889);
    e = e * r + ({T})(0.008333333333333333);
    e = e * r + ({T})(0.041666666666666664);
    e = e * r + ({T})(0.16666666666666666);
    e = e * r + ({T})(0.5);
    e = e * r + ({T})(1.0);
    e = e * r + ({T})(1.0);
    union {{ wp::{I} i; {T} f; }} two;
    m = m < -{low} ? -{low} : (m > {low} ? {low} : m);
    two.i = (wp::{I})(m + {bias}) << {bits};
    return x < ({T})(-{limit}) ? ({T})(0.0) : e * two.f;
"""

# sin and cos of 2 pi u for u in [0, 1]: quarter turns are taken off first, so that the polynomial sees |angle| <= pi/4
_TURN = """
    {T} k = ({T})((wp::int32)(u * ({T})(4.0) + ({T})(0.5)));
    {T} r = (u - k * ({T})(0.25)) * ({T})(6.283185307179586);
    {T} r2 = r * r;
    {T} s = ({T})(-7.647163731819816e-13);
    s = s * r2 + ({T})(1.605904383682161e-10);
    s = s * r2 + ({T})(-2.505210838544172e-08);
    s = s * r2 + ({T})(2.7557319223985893e-06);
    s = s * r2 + ({T})(-0.0001984126984126984);
    s = s * r2 + ({T})(0.008333333333333333);
    s = s * r2 + ({T})(-0.16666666666666666);
    s = r + r * r2 * s;
    {T} c = ({T})(4.779477332387385e-14);
    c = c * r2 + ({T})(-1.1470745597729725e-11);
    c = c * r2 + ({T})(2.08767569878681e-09);
    c = c * r2 + ({T})(-2.755731922398589e-07);
    c = c * r2 + ({T})(2.48015873015873e-05);
    c = c * r2 + ({T})(-0.001388888888888889);
    c = c * r2 + ({T})(0.041666666666666664);
    c = c * r2 + ({T})(-0.5);
    c = c * r2 + ({T})(1.0);
    wp::int32 q = (wp::int32)k & 3;
"""
_SIN = _TURN + "    {T} v = (q & 1) ? c : s;\n    return q >= 2 ? -v : v;\n"
_COS = _TURN + "    {T} v = (q & 1) ? s : c;\n    return (q == 1 || q == 2) ? -v : v;\n"

_INSIDE = (
    "return (rho2 >= rho_min2) & (rho2 <= rho_max2) & (x <= half_x) & (-x <= half_x) & (y <= half_y) & (-y <= half_y)"
    " & (z >= z_min) & (z <= z_max) & (sheet >= 0);"
)


_ADJ_FMA = """
#if defined(__CUDA_ARCH__)
    adj_a = ::fma{f}(b, adj_ret, adj_a);
    adj_b = ::fma{f}(a, adj_ret, adj_b);
#else
    adj_a = __builtin_fma{f}(b, adj_ret, adj_a);
    adj_b = __builtin_fma{f}(a, adj_ret, adj_b);
#endif
    adj_c += adj_ret;
"""


@functools.cache
def bundle(name):
    """Types and native functions for the precision ``"float32"`` or ``"float64"``."""
    real = REALS[name]
    double = real is wp.float64
    ctype = "double" if double else "float"
    root = "::sqrt" if double else "::sqrtf"
    exp_words = {
        "T": ctype,
        "I": "int64" if double else "int32",
        "low": 1022 if double else 126,
        "bias": 1023 if double else 127,
        "bits": 52 if double else 23,
        "limit": 708.0 if double else 87.0,
    }
    array = wp.array(dtype=real)

    @wp.func_native(
        "return a.data[(long long)c * n + (long long)i];",
        adj_snippet="a.grad[(long long)c * n + (long long)i] = adj_ret;",
    )
    def ld(a: array, c: int, n: wp.int64, i: int) -> real: ...

    @wp.func_native(
        "a.data[(long long)c * n + (long long)i] = v;",
        adj_snippet="adj_v += a.grad[(long long)c * n + (long long)i];",
        replay_snippet="",
    )
    def st(a: array, c: int, n: wp.int64, i: int, v: real): ...

    @wp.func_native("a.data[(long long)c * n + (long long)i] = v;", adj_snippet="", replay_snippet="")
    def st_plain(a: array, c: int, n: wp.int64, i: int, v: real): ...

    @wp.func_native("return a.data[(long long)i];", adj_snippet="")
    def ld_fixed(a: array, i: int) -> real: ...

    # A table is read through a type that nothing in a kernel is stored as. The compiler then knows that no store of the
    # loop can change it, and may gather from it in vectorised code.
    table = f"""
    union {{ {"long long" if double else "char32_t"} bits; {ctype} number; }} two;
    two.bits = ((const {"long long" if double else "char32_t"}*)a.data)[(long long)j];
    return two.number;
"""

    @wp.func_native(table, adj_snippet="")
    def ld_plain(a: array, j: int) -> real: ...

    # a cell of a column, read in the same way: so that cells may be moved to another state's in vectorised code
    moved = table.replace("[(long long)j]", "[(long long)c * n + (long long)i]")

    @wp.func_native(moved, adj_snippet="")
    def ld_moved(a: array, c: int, n: wp.int64, i: int) -> real: ...

    # a scene number: its gradient goes to this ray's own cell of an accumulator column, and is summed afterwards
    @wp.func_native(table, adj_snippet="acc.data[(long long)c * n + (long long)i] = adj_ret;")
    def ld_number(a: array, j: int, acc: array, c: int, n: wp.int64, i: int) -> real: ...

    @wp.func_native("return c ? a : b;", adj_snippet="adj_a += c ? adj_ret : 0; adj_b += c ? 0 : adj_ret;")
    def select(c: wp.bool, a: real, b: real) -> real: ...

    @wp.func_native(f"return {root}(x);", adj_snippet=f"adj_x += x > 0 ? ({ctype})0.5 * adj_ret / {root}(x) : 0;")
    def sqrt(x: real) -> real: ...

    # Quotients with adjoints that divide less than Warp's own: a division takes longer than five products.
    @wp.func_native(
        f"return ({ctype})1 / x;", adj_snippet=f"{{ {ctype} r = ({ctype})1 / x; adj_x -= r * r * adj_ret; }}"
    )
    def inverse(x: real) -> real: ...

    @wp.func_native(
        f"return ({ctype})1 / {root}(x);",
        adj_snippet=f"{{ {ctype} r = ({ctype})1 / {root}(x); adj_x -= ({ctype})0.5 * r * r * r * adj_ret; }}",
    )
    def inverse_sqrt(x: real) -> real: ...

    @wp.func_native(
        "return a / b;",
        adj_snippet=f"{{ {ctype} r = adj_ret * (({ctype})1 / b); adj_a += r; adj_b -= (a / b) * r; }}",
    )
    def quotient(a: real, b: real) -> real: ...

    # half the instructions of a product and a sum; said outright, so that every build of a kernel rounds alike
    fused = f"""
#if defined(__CUDA_ARCH__)
    return ::fma{"" if double else "f"}(a, b, c);
#else
    return __builtin_fma{"" if double else "f"}(a, b, c);
#endif
"""

    @wp.func_native(fused, adj_snippet=_ADJ_FMA.format(f="" if double else "f"))
    def fma(a: real, b: real, c: real) -> real: ...

    @wp.func_native("return x;", adj_snippet="")
    def detach(x: real) -> real: ...

    # exp of a detached number; a kernel attaches its derivative as exp(x) * (1 + (x - detach(x)))
    @wp.func_native(_EXP.format(**exp_words), adj_snippet="")
    def exp(x: real) -> real: ...

    @wp.func_native(_SIN.format(**exp_words), adj_snippet="")
    def sin_turn(u: real) -> real: ...

    @wp.func_native(_COS.format(**exp_words), adj_snippet="")
    def cos_turn(u: real) -> real: ...

    @wp.func_native(_INSIDE, adj_snippet="")
    def inside(
        rho2: real,
        x: real,
        y: real,
        z: real,
        sheet: real,
        rho_min2: real,
        rho_max2: real,
        half_x: real,
        half_y: real,
        z_min: real,
        z_max: real,
    ) -> wp.bool: ...

    return SimpleNamespace(
        name=name, real=real, array=array, ctype=ctype, ld=ld, st=st, st_plain=st_plain, ld_fixed=ld_fixed,
        ld_moved=ld_moved, ld_plain=ld_plain, ld_number=ld_number, select=select, sqrt=sqrt, inverse=inverse,
        inverse_sqrt=inverse_sqrt, quotient=quotient, fma=fma, detach=detach, exp=exp,
        sin_turn=sin_turn, cos_turn=cos_turn, inside=inside,
    )  # fmt: skip


@wp.func_native("return a.data[(long long)c * n + (long long)i];", adj_snippet="")
def ldi(a: INT, c: int, n: wp.int64, i: int) -> wp.int32: ...


@wp.func_native("return (wp::int32)((const char32_t*)a.data)[(long long)c * n + (long long)i];", adj_snippet="")
def ldi_moved(a: INT, c: int, n: wp.int64, i: int) -> wp.int32:
    """What `ldi` reads, through a type that nothing is stored as."""
    ...


@wp.func_native("return (wp::int32)a.data[(long long)j];", adj_snippet="")
def ld_table(a: LONG, j: int) -> wp.int32:
    """An integer from a table: 64-bit, so that no 32-bit store can change it."""
    ...


@wp.func_native("a.data[(long long)c * n + (long long)i] = v;", adj_snippet="", replay_snippet="")
def sti(a: INT, c: int, n: wp.int64, i: int, v: wp.int32): ...


@wp.func_native("a.data[(long long)i] = v;", adj_snippet="")
def sti_again(a: INT, i: int, v: wp.int32):
    """A store that the adjoint makes too."""
    ...


@wp.func_native("return c ? a : b;", adj_snippet="")
def select_int(c: wp.bool, a: wp.int32, b: wp.int32) -> wp.int32: ...


_ADD = """
#if defined(__CUDA_ARCH__)
    atomicAdd((unsigned long long*)(a.data + (long long)j), (unsigned long long)v);
#else
    a.data[(long long)j] += v;
#endif
"""


@wp.func_native(_ADD, adj_snippet="", replay_snippet="")
def add_long(a: LONG, j: int, v: wp.int64): ...
