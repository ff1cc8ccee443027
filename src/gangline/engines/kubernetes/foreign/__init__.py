"""Pods of others that name our scheduler: gathered into gangs, recorded as jobs, bound to their nodes.

``service`` sees such pods come and writes a job object for every gang of them, so that queue, priority, explanation and
the one scheduling cycle hold for them as for any job. ``binding`` carries out the order to run such a job: the pods
exist already, so it gives them their nodes. Everything else here is pure. The driver and the view use this package;
nothing here changes what a pod asks for, and no pod that its owner made is deleted except to make room.
"""
