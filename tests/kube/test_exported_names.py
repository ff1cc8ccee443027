"""The public names of gangline.kube are a promise."""

import gangline.kube


def test_the_public_names_are_the_ones_listed() -> None:
    submodules = {"client", "credentials", "errors", "kubeconfig", "objects", "requests", "resources", "streams"}
    submodules |= {"compact", "ownership", "transport", "watching"}
    public = {name for name in vars(gangline.kube) if not name.startswith("_")} - submodules
    assert public == set(gangline.kube.__all__)
