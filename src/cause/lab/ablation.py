"""What each part of CAUSE contributes, where memory is plenty and where it binds."""

from collections.abc import Sequence

from cause.lab.compare import Job, jobs
from cause.lab.simulate import Setting
from cause.lab.workload import Workload

VARIANTS: tuple[tuple[str, str], ...] = (
    # what is shown, the system
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
    """Every variant at the setting's own memory, and at 16 and 8 slots."""
    wanted: list[Job] = []
    systems = [system for _, system in VARIANTS]
    for slots in (None, *TIGHT_SLOTS):
        column = Setting(**{**vars(setting), "slots": slots})
        wanted += [Job(j.system, slots, j.seed, j.source, j.setting) for j in jobs(systems, workload, column, seeds)]
    return wanted


def columns(setting: Setting) -> Sequence[tuple[int | None, str]]:
    """The columns of the table: where, and what it is called."""
    return ((None, f"{setting.memory} (default)"), *((slots, f"{slots} slots") for slots in TIGHT_SLOTS))
