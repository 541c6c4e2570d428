"""The sums of the features of each class, from which several heads are solved."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cause.learners.additive.heads.base import Head, Rows, by_class
from cause.learners.additive.sums import Shapes


class ClassSums(Head):
    """A head whose state is one sum of features for each class, and the number of its samples."""

    def shapes(self) -> Shapes:
        """Return the table of the sums of each class; its last row counts the samples."""
        return {"sums": (self.setting.features + 1, self.setting.classes)}

    @property
    def largest_contribution(self) -> int:
        """The largest feature."""
        return max(self.setting.largest, 1)

    def contribution(self, z: Rows, y: NDArray[np.int64]) -> Mapping[str, NDArray[np.int64]]:
        """Return the features in the column of the class."""
        return {"sums": by_class(z, y, self.setting.classes)}
