"""Names of an MPI gang's workers in the launcher's ``/etc/hosts``. Pure."""

from collections.abc import Mapping

from gangline.dialects.frameworks import Address
from gangline.engines.kubernetes.manifests.pod import Plain
from gangline.model import ReplicaId, RoleName

_LAUNCHER = RoleName("launcher")


def with_host_aliases(
    pod: Plain, replica: ReplicaId, names: Mapping[ReplicaId, Address], lasting: Mapping[ReplicaId, str]
) -> Plain:
    """Give a launcher's pod the names of its hosts, as the hostfile has them and short; other pods stay as they are.

    Names that the pod's template gives itself come first and so win. The launcher's own short name is left out: it is
    the pod's host name, which the kubelet gives the address that others know.
    """
    if replica.role != _LAUNCHER or not lasting:
        return pod
    aliases: dict[str, list[str]] = {}
    for given in pod["spec"].get("hostAliases") or ():
        aliases.setdefault(given["ip"], []).extend(given.get("hostnames") or ())
    for host, address in lasting.items():
        name = names[host][0]
        # Workers on their nodes' network may share an address, which may be listed only once.
        aliases.setdefault(address, []).extend((name,) if host == replica else (name, name.partition(".")[0]))
    entries = [{"ip": address, "hostnames": hosts} for address, hosts in aliases.items()]
    return {**pod, "spec": {**pod["spec"], "hostAliases": entries}}
