"""Which replicas a service should have and where its requests go: given load, health and time, what should exist. Pure.

``plan`` decides, ``route_of`` says what a router is told of it, and ``sight`` has what both are told of the world.
"""

from gangline.serving.plan import ServicePlan, plan
from gangline.serving.revisions import UnknownModelError, first_replicas, is_wanted, roll_back
from gangline.serving.rollout import number_of, traffic_of
from gangline.serving.routes import route_name, route_of, yielding
from gangline.serving.sight import EndedReplica, Health, LoadSample, ReplicaSight, ServiceSight

__all__ = [
    "EndedReplica",
    "Health",
    "LoadSample",
    "ReplicaSight",
    "ServicePlan",
    "ServiceSight",
    "UnknownModelError",
    "first_replicas",
    "is_wanted",
    "number_of",
    "plan",
    "roll_back",
    "route_name",
    "route_of",
    "traffic_of",
    "yielding",
]
