"""What to do for levels that a run lacks: the advice in a verdict, by the shape of the run."""

LARGER_BUDGET = "a search with a larger budget would tell"
_ADVICE = {
    "knee": ("allow more users (-u)", "search again, for its lowest levels could not be used"),
    "ladder": ("add higher --stages", "add lower --stages"),
}
_OTHERS = ("hold several levels (--shape knee)", "hold lower levels too (--shape knee)")


def more_levels(shape: str | None, ended_early: bool = False) -> tuple[str, str]:
    """(for higher levels, for lower ones). Only a ladder has ``--stages``.

    ``ended_early`` is of a search whose budget was spent: more users would not have helped it.
    """
    higher, lower = _ADVICE.get(shape or "ladder", _OTHERS)
    return (LARGER_BUDGET, lower) if ended_early and shape == "knee" else (higher, lower)
