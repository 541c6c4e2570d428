"""What an audit found, and whether that is what forgetting must look like."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cause.lab.audit.roc import Estimate, auc_difference, auc_interval, tpr_at

CHANCE = 0.5
VISIBLE = 0.6
"""Below this lower bound before forgetting, there was too little to see for chance afterwards to say anything."""
LOW_FPR = 0.05


@dataclass(frozen=True)
class Finding:
    """What one attack achieves: its AUC, and the share of members it finds when 5 % of the others may be taken too."""

    auc: Estimate
    tpr: float


def finding(scores: ArrayLike, member: ArrayLike) -> Finding:
    """Of an attack's scores."""
    return Finding(auc_interval(scores, member), tpr_at(scores, member, LOW_FPR))


Scored = Mapping[str, NDArray[np.float64]]


def problems(before: Scored, after: Scored, retrained: Scored, member: ArrayLike) -> list[str]:
    """Everything that speaks against the samples being forgotten: nothing, if all is well.

    Each attack must see the members before forgetting; must not tell them from samples never seen afterwards, neither
    by higher scores nor by lower ones (a model that was pushed away from a sample gives it away as well); and must do
    as well on a model that was retrained without them. An attack on a clean model fails the second by chance once in
    20 audits.
    """
    found = []
    for name in before:
        seen, now = auc_interval(before[name], member), auc_interval(after[name], member)
        gap = auc_difference(after[name], retrained[name], member)
        if seen.low <= VISIBLE:
            found.append(f"{name}: the audit sees too little before forgetting: AUC {seen:.3f}, wanted above {VISIBLE}")
        if CHANCE not in now:
            found.append(f"{name}: forgotten samples differ from samples never seen: AUC {now:.3f}, wanted {CHANCE}")
        if 0 not in gap:
            found.append(f"{name}: the AUC differs from that of the retrained model by {gap:+.3f}, wanted 0")
    return found
