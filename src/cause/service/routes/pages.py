"""Query parameters of lists that are returned in pages."""

from typing import Annotated

from fastapi import Query

Before = Annotated[int | None, Query(ge=0, le=2**53, description="The `next` of the page before")]
Limit = Annotated[int, Query(ge=1, le=500)]
After = Annotated[int | None, Query(ge=0, le=2**53, description="The `next` of the page before")]
MaybeLimit = Annotated[int | None, Query(ge=1, le=500, description="The most of one page; all without it")]
