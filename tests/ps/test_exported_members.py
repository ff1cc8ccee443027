import pkgutil

from gangline import ps


def test_public_names_are_listed_and_nothing_else_is_exported() -> None:
    public = {name for name in vars(ps) if not name.startswith("_")}
    modules = {module.name for module in pkgutil.iter_modules(ps.__path__)} - {"resize"}

    assert public - modules == set(ps.__all__)
