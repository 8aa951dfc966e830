"""The wavefront: emit, then search, interact and book at every bounce, over a structure of arrays."""
