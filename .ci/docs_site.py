"""What mkdocs does besides: files of `results/` that the pages link to become part of the site."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
LINKED = ("results/default-accuracy*.json", "results/reproduce/RESULTS.md", "results/reproduce/*.png")


def on_files(files: Files, config: Any) -> Files:
    """Add what is outside the folder of the pages."""
    for pattern in LINKED:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """On the site `results/` is beside the pages, in the repository one folder up."""
    return markdown.replace("](../results/", "](results/")
