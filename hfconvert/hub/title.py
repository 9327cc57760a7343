"""The one line that says what a pull request or commit brings."""

from __future__ import annotations

from hfconvert.hub.story import Story, changes_of, is_unchanged

# What transformers looks for (safetensors_conversion.py) before it asks a bot for a conversion of its own.
VARIANT = "Adding `safetensors` variant of this model"
_LONGEST = 200  # letters that the Hub takes


def title_of(story: Story) -> str:
    """The title; the well-known one only where names and dtypes are those of the repository itself."""
    if story.target.origin is not None:
        if is_unchanged(story.plan):
            return VARIANT
        return _short(f"Adding `safetensors` weights: {', '.join(changes_of(story.plan))}")
    if story.is_adapter:
        return _short(f"Adding an adapter{f' of {story.base}' if story.base else ''}")
    changes = ", ".join(changes_of(story.plan))
    of = f" of {story.source.repo}" if story.source else ""
    return _short(f"Adding `safetensors` weights{of}{f': {changes}' if changes else ''}")


def _short(title: str) -> str:
    return title if len(title) <= _LONGEST else f"{title[: _LONGEST - 3]}..."
