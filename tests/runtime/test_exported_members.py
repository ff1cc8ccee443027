"""The public names of gangline.runtime are a promise."""

from gangline import runtime


def test_public_names_are_listed_and_nothing_else_is_exported() -> None:
    public = {name for name in vars(runtime) if not name.startswith("_")}
    modules = {"checkpoints", "errors", "metrics", "moving", "peers", "remote_shell", "replica", "stop"}
    modules |= {"trees", "unpacking"}

    assert public - modules == set(runtime.__all__)
    assert runtime.__all__ == sorted(runtime.__all__)
