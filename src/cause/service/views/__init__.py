"""The bodies of responses, made from the device. What belongs together is read under the device's lock."""

from cause.service.views.device import shard, shards, status, sub_models
from cause.service.views.erasures import plan, plan_for, request, request_for, requests
from cause.service.views.evidence import energy, receipts
from cause.service.views.history import round_, rounds
from cause.service.views.users import samples, user, user_for

__all__ = [
    "energy",
    "plan",
    "plan_for",
    "receipts",
    "request",
    "request_for",
    "requests",
    "round_",
    "rounds",
    "samples",
    "shard",
    "shards",
    "status",
    "sub_models",
    "user",
    "user_for",
]
