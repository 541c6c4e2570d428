"""The results of an audit, and whether they are what forgetting must look like."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.lab.audit.roc import Estimate, auc_difference, auc_interval, tpr_at

CHANCE = 0.5
VISIBLE = 0.6
"""If the lower bound before forgetting is below it, chance level after forgetting proves nothing."""
LOW_FPR = 0.05


@dataclass(frozen=True)
class Finding:
    """The result of one attack: its AUC, and the share of members it finds at 5 % false positives."""

    auc: Estimate
    tpr: float


def finding(scores: ArrayLike, member: ArrayLike) -> Finding:
    """Return the result of an attack from its scores; `member` is True for members."""
    return Finding(auc_interval(scores, member), tpr_at(scores, member, LOW_FPR))


Scored = Mapping[str, NDArray[np.float64]]


def problems(before: Scored, after: Scored, retrained: Scored, member: ArrayLike) -> list[str]:
    """Return everything that speaks against the samples being forgotten; an empty list if nothing does.

    Each attack must find the members before forgetting. Afterwards it must not tell them from samples never seen,
    neither by higher scores nor by lower ones (a model that was pushed away from a sample reveals it, too), and must do
    as well on a model that was retrained without them. On a clean model the second check fails by chance once in 20
    audits.

    Parameters
    ----------
    before
        The scores of each attack before forgetting.
    after
        The scores after forgetting.
    retrained
        The scores on a model that was retrained without the samples.
    member
        Whether each sample was a member.
    """
    lines = []
    for name in before:
        old, new = auc_interval(before[name], member), auc_interval(after[name], member)
        gap = auc_difference(after[name], retrained[name], member)
        if old.low <= VISIBLE:
            lines.append(f"{name}: the audit sees too little before forgetting: AUC {old:.3f}, wanted above {VISIBLE}")
        if CHANCE not in new:
            lines.append(f"{name}: forgotten samples differ from samples never seen: AUC {new:.3f}, wanted {CHANCE}")
        if 0 not in gap:
            lines.append(f"{name}: the AUC differs from that of the retrained model by {gap:+.3f}, wanted 0")
    return lines
