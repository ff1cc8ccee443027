"""The public names of gangline.runtime are a promise."""

from pathlib import Path

from gangline import runtime


def test_public_names_are_listed_and_nothing_else_is_exported() -> None:
    public = {name for name in vars(runtime) if not name.startswith("_")}
    modules = {path.stem for path in Path(runtime.__file__).parent.glob("*.py")} - set(runtime.__all__)

    assert public - modules == set(runtime.__all__)
    assert runtime.__all__ == sorted(runtime.__all__)
