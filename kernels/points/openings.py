"""Which descendants of a binary node a wide node takes as its eight children.

For points the most populous node is opened again and again. For rays the choice is the one of least expected cost under
the surface area heuristic, found bottom-up over all ways of cutting a binary tree into wide nodes and leaves (Ylitie,
Karras and Laine, "Efficient Incoherent Ray Traversal on GPUs Through Compressed Wide BVHs", HPG 2017, section 3): the
chance that a ray meets a box is its area, a node costs 1, a block of eight items `BLOCK_COST`.

A choice names inner nodes by their number, leaves by -2 - number, and nothing by -1.
"""

import warp as wp

from kernels.points.launch import VECTORS, once
from kernels.points.native import FLOATS, INTS, STACK

SLOTS = wp.types.vector(length=8, dtype=wp.int32)
_COSTS = wp.types.vector(length=9, dtype=wp.float32)
# against the cost of a node; flat between 0.3 and 0.7
BLOCK_COST = wp.constant(wp.float32(0.4))
_INFINITE = wp.constant(wp.float32(float("inf")))
# No more than 96 binary levels: 63 bits of a code, then halves of what is equal. A stack has room for a path of them on
# which every node leaves one child waiting; what wider nodes leave beyond that is limited to this.
MOST_WAITING = wp.constant(wp.int32(192 - 1 - 96 - 7))
assert STACK == 192


@wp.func
def open_populous(root: int, first_child: INTS, starts: INTS, ends: INTS) -> SLOTS:
    """Eight descendants that cover a node, or fewer where there are fewer."""
    slots = SLOTS(-1)
    slots[0] = root
    filled = int(1)
    searching = int(1)
    while filled < 8 and searching == 1:
        widest = int(-1)
        most = int(0)
        for j in range(filled):
            node = slots[j]
            if first_child[node] >= 0:
                items = ends[node] - starts[node]
                if items > most:
                    most = items
                    widest = j
        if widest < 0:
            searching = int(0)
        else:
            child = first_child[slots[widest]]
            slots[widest] = child
            slots[filled] = child + 1
            filled = filled + 1
    for j in range(filled):
        if first_child[slots[j]] < 0:
            slots[j] = -2 - slots[j]
    return slots


@wp.func
def waiting_more(slots: SLOTS) -> int:
    """How many children of a wide node wait while one of them is searched, beyond the one that a level is allowed."""
    filled = int(0)
    for j in range(8):
        if slots[j] != -1:
            filled = filled + 1
    return wp.max(filled - 2, 0)


@wp.func
def choice(choices: INTS, node: int, budget: int) -> int:
    """What a node does with a budget of children; see ``weigher``. 0 stands for the next smaller budget."""
    return (choices[node] >> (4 * (budget - 1))) & 7


@wp.func
def open_cheapest(root: int, first_child: INTS, choices: INTS, waiting: int) -> SLOTS:
    """The children of least cost, or two if too many wait on the way already."""
    slots = SLOTS(-1)
    if first_child[root] < 0:
        slots[0] = -2 - root
        return slots
    share = (choices[root] >> 28) & 7
    budgets = SLOTS(0)
    slots[0] = first_child[root]
    slots[1] = first_child[root] + 1
    budgets[0] = share
    budgets[1] = 8 - share
    if waiting > MOST_WAITING:
        budgets[0] = 1
        budgets[1] = 1
    filled = int(2)
    i = int(0)
    while i < filled:
        node = slots[i]
        budget = budgets[i]
        while budget > 1 and choice(choices, node, budget) == 0:
            budget = budget - 1
        if budget > 1:
            share = choice(choices, node, budget)
            slots[i] = first_child[node]
            slots[filled] = first_child[node] + 1
            budgets[i] = share
            budgets[filled] = budget - share
            filled = filled + 1
        else:
            if choice(choices, node, 1) == 0:
                slots[i] = -2 - node
            i = i + 1
    return slots


@once
def weigher(dim):
    """A function that finds the cost of one binary node from those of its children.

    ``costs`` (8 N,) holds the least cost of a node with a budget of 1 to 7 children, ``choices`` (N,) four bits for
    each budget: with 1, whether it is a wide node (or a leaf); with more, how many of them go to its first child, or 0
    where one fewer does as well. The last four bits are the first child's share of the eight of a wide node.
    """
    vector = VECTORS[dim]
    vectors = wp.array(dtype=vector)

    @wp.func
    def weigh(
        node: int,
        largest_leaf: int,
        first_child: INTS,
        starts: INTS,
        ends: INTS,
        lower: vectors,
        upper: vectors,
        costs: FLOATS,
        choices: INTS,
    ):
        size = upper[node] - lower[node]
        if wp.static(dim == 2):
            area = size[0] + size[1]
        else:
            area = size[0] * (size[1] + size[2]) + size[1] * size[2]
        items = ends[node] - starts[node]
        least = _INFINITE
        if items <= largest_leaf:
            least = area * BLOCK_COST * wp.float32((items + 7) / 8)
        chosen = int(0)
        child = first_child[node]
        if child < 0:
            for budget in range(1, 8):
                costs[8 * node + budget] = least
        else:
            left = _COSTS(_INFINITE)
            right = _COSTS(_INFINITE)
            for budget in range(1, 8):
                left[budget] = costs[8 * child + budget]
                right[budget] = costs[8 * child + 8 + budget]
            cut = _COSTS(_INFINITE)
            shares = SLOTS(1)
            for budget in range(2, 9):
                for share in range(1, budget):
                    cost = left[share] + right[budget - share]
                    if cost < cut[budget]:
                        cut[budget] = cost
                        shares[budget - 1] = share
            if items > largest_leaf or cut[8] + area < least:
                least = cut[8] + area
                chosen = 1
            costs[8 * node + 1] = least
            for budget in range(2, 8):
                if cut[budget] < least:
                    least = cut[budget]
                    chosen = chosen | (shares[budget - 1] << (4 * (budget - 1)))
                costs[8 * node + budget] = least
            chosen = chosen | (shares[7] << 28)
        choices[node] = chosen

    return weigh
