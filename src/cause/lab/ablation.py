"""The ablation: CAUSE with one part exchanged at a time, with plenty of memory and with little."""

from collections.abc import Sequence

from cause.lab.compare import Job, jobs
from cause.lab.simulate import Setting
from cause.lab.workload import Workload

VARIANTS: tuple[tuple[str, str], ...] = (
    # label in the table, system
    ("CAUSE (the paper's)", "cause"),
    ("· without shard controller", "cause-no-sc"),
    ("· partition uniform", "cause-u"),
    ("· partition by class", "cause-c"),
    ("· policy random", "cause:policy=random"),
    ("· policy fifo", "cause:policy=fifo"),
    ("· policy static", "cause:policy=static"),
    ("· policy latest", "cause:policy=latest"),
    ("· policy cost (ours)", "cause:policy=cost"),
    ("· memory unlimited (floor)", "cause:policy=unlimited"),
    ("· requests coalesced (ours)", "cause:requests=coalesced"),
    ("No SC · policy cost", "cause-no-sc:policy=cost"),
    ("No SC · memory unlimited (floor)", "cause-no-sc:policy=unlimited"),
    ("No SC · requests coalesced", "cause-no-sc:requests=coalesced"),
    ("No SC · partition balanced (ours)", "cause-no-sc:partition=balanced"),
    ("frugal: all of ours", "frugal"),
    ("frugal · memory unlimited (floor)", "frugal:policy=unlimited"),
    ("SISA", "sisa"),
)
TIGHT_SLOTS = (16, 8)


def ablation_jobs(workload: Workload, setting: Setting, seeds: int) -> list[Job]:
    """Return the simulations of every variant, at the memory of the setting and at 16 and 8 slots."""
    planned: list[Job] = []
    systems = [system for _, system in VARIANTS]
    for slots in (None, *TIGHT_SLOTS):
        column = Setting(**{**vars(setting), "slots": slots})
        planned += [Job(j.system, slots, j.seed, j.source, j.setting) for j in jobs(systems, workload, column, seeds)]
    return planned


def columns(setting: Setting) -> Sequence[tuple[int | None, str]]:
    """Return the columns of the table: the number of slots (None: the memory of the setting), and the title."""
    return ((None, f"{setting.memory} (default)"), *((slots, f"{slots} slots") for slots in TIGHT_SLOTS))
