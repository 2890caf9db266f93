"""The exceptions, under the name by which users import them."""

from placet.schemas.effect import DoNotRetry, OutcomeUnknown, RetryAfter
from placet.schemas.errors import (
    AgentError,
    BackpressureError,
    ClosedError,
    DomainError,
    DuplicateRequestError,
    IntentError,
    OwnerError,
    PermissionDeniedError,
    PlacetError,
    QuotaExceededError,
    RollbackError,
    SettingError,
    StaleContextError,
    StoreError,
    TimeStalledError,
    ValidationError,
)

__all__ = [
    "AgentError",
    "BackpressureError",
    "ClosedError",
    "DoNotRetry",
    "DomainError",
    "DuplicateRequestError",
    "IntentError",
    "OutcomeUnknown",
    "OwnerError",
    "PermissionDeniedError",
    "PlacetError",
    "QuotaExceededError",
    "RetryAfter",
    "RollbackError",
    "SettingError",
    "StaleContextError",
    "StoreError",
    "TimeStalledError",
    "ValidationError",
]
