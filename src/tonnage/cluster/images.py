"""Container images on nodes: the number of nodes that have each image, and its size on each node.

An image's column is built on its first use and kept current from then on.
"""

from collections.abc import Callable, Iterable

import numpy as np
from msgspec.structs import replace

from tonnage.cluster.columns import Array
from tonnage.cluster.memo import Memo
from tonnage.model.node import Node, NodeImage


class Images:
    """All images by name."""

    def __init__(self) -> None:
        self.spread: dict[str, int] = {}
        """The number of nodes that have each image."""
        self._columns: dict[str, Array] = {}
        self._shared: Memo[tuple[tuple[str, ...], int], NodeImage] = Memo()

    def shared(self, node: Node) -> Node:
        """The node with image entries shared between nodes, because each node lists dozens of them."""
        if not node.status.images:
            return node
        images = [self._share(image) for image in node.status.images]
        return replace(node, status=replace(node.status, images=images))

    def _share(self, image: NodeImage) -> NodeImage:
        key = tuple(image.names or ()), image.sizeBytes
        known = self._shared.get(key)
        return self._shared.keep(key, image) if known is None else known

    def count(self, node: Node, sign: int) -> None:
        """Count the images of a node that is added (sign 1) or removed (sign -1)."""
        for name in _sizes(node):
            left = self.spread.get(name, 0) + sign
            if left:
                self.spread[name] = left
            else:
                del self.spread[name]

    def change(self, row: int, node: Node) -> None:
        """Update a row with a node's images."""
        sizes = _sizes(node) if self._columns else {}
        for name, column in self._columns.items():
            column[row] = sizes.get(name, 0)

    def column(self, name: str, nodes: Callable[[], Iterable[Node]]) -> Array:
        """The size of an image on each node in bytes, 0 where it is absent."""
        known = self._columns.get(name)
        if known is None:
            known = self._columns[name] = np.array([_sizes(node).get(name, 0) for node in nodes()], np.int64)
        return known

    def forget(self) -> None:
        """Drop the columns, because row numbers have changed."""
        self._columns.clear()


def _sizes(node: Node) -> dict[str, int]:
    return {name: max(0, image.sizeBytes) for image in node.status.images or () for name in image.names or ()}
