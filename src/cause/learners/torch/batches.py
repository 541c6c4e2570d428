"""The batches of a segment: where they start and stop, and how often the samples are visited."""

from collections import Counter
from collections.abc import Sequence

from cause.engine.samples import Lesson
from cause.learners.recipe import MOST_EPOCHS_FOR_STEPS, Recipe

Cut = tuple[int, int]


def batches(count: int, size: int) -> list[Cut]:
    """Return where batches start and stop; a last batch of a single sample joins the one before it.

    >>> batches(9, 4), batches(8, 4), batches(1, 4)
    ([(0, 4), (4, 9)], [(0, 4), (4, 8)], [(0, 1)])
    """
    cuts = list(range(0, count, size))
    if len(cuts) > 1 and count - cuts[-1] == 1:
        cuts.pop()
    return list(zip(cuts, [*cuts[1:], count], strict=True))


def epochs_of(recipe: Recipe, lesson: Lesson) -> int:
    """Return the number of epochs of a segment; see `Recipe.pace` and `Recipe.min_steps`.

    >>> from cause.engine.samples import Part, Piece, SegmentKey, TraceUpload
    >>> upload = TraceUpload("u7", 1, (Part(20),))
    >>> lesson = Lesson(SegmentKey(0, 2), (Piece(upload, range(5)),), 5, (Piece(upload, range(5, 20)),))
    >>> recipe = Recipe("mlp", 10, (64,), epochs=80)
    >>> epochs_of(recipe, lesson), epochs_of(Recipe("mlp", 10, (64,), epochs=80, pace="visits"), lesson)
    (80, 20)
    >>> epochs_of(Recipe("mlp", 10, (64,), epochs=10, batch_size=10, min_steps=100), lesson)  # 20 samples: 2 batches
    50
    """
    rehearsed = sum(len(positions) for _, positions in lesson.rehearsed)
    new = sum(len(positions) for _, positions in lesson.pieces)
    epochs = recipe.epochs
    if recipe.pace == "visits":
        epochs = max(1, epochs * new // (new + rehearsed))
    steps = len(batches(new + rehearsed, recipe.batch_size))
    return max(epochs, min(-(-(recipe.min_steps or 0) // steps), MOST_EPOCHS_FOR_STEPS * recipe.epochs))


def uses(cuts: Sequence[Cut], epochs: int) -> Counter[int]:
    """Return how many batches of each size a training has.

    >>> uses([(0, 4), (4, 8), (8, 10)], 3)
    Counter({4: 6, 2: 3})
    """
    return Counter({size: times * epochs for size, times in Counter(stop - start for start, stop in cuts).items()})
