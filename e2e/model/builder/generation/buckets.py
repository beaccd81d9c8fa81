"""Sizes that batches and lengths are rounded up to: a CUDA graph is captured once for each pair of them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Buckets:
    """Sizes in ascending order; the last one holds everything."""

    sizes: tuple[int, ...]

    @classmethod
    def doubling(cls, smallest: int, largest: int) -> "Buckets":
        """Returns `smallest`, its double and so on below `largest`, and `largest`."""
        sizes = []
        size = smallest
        while size < largest:
            sizes.append(size)
            size *= 2
        return cls((*sizes, largest))

    def holding(self, n: int) -> int:
        """Returns the smallest size of at least `n`."""
        return next(size for size in self.sizes if size >= n)
