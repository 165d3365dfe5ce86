import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_UNSPECIFIED: _ClassVar[Reason]
    SPEC_INVALID: _ClassVar[Reason]
    CERT_REQUIRED: _ClassVar[Reason]
    ROLE: _ClassVar[Reason]
    NOT_OWNER: _ClassVar[Reason]
    SANDBOX_UNKNOWN: _ClassVar[Reason]
    EXEC_UNKNOWN: _ClassVar[Reason]
    PATH_NOT_FOUND: _ClassVar[Reason]
    ID_REUSED: _ClassVar[Reason]
    STALE_OWNER: _ClassVar[Reason]
    TOMBSTONED: _ClassVar[Reason]
    LEASE_EXPIRED: _ClassVar[Reason]
    SANDBOX_LOST: _ClassVar[Reason]
    NOT_READY: _ClassVar[Reason]
    BACKEND_UNSUPPORTED: _ClassVar[Reason]
    ISOLATION_UNAVAILABLE: _ClassVar[Reason]
    API_RANGE: _ClassVar[Reason]
    IMAGE_UNAVAILABLE: _ClassVar[Reason]
    NO_SLOT: _ClassVar[Reason]
    DISK_LOW: _ClassVar[Reason]
    MEMORY: _ClassVar[Reason]
    LIMIT_PER_OWNER: _ClassVar[Reason]
    BACKEND_DOWN: _ClassVar[Reason]
    DRAINING: _ClassVar[Reason]
    STARTING: _ClassVar[Reason]
    OFFSET_BEYOND_END: _ClassVar[Reason]
    LOG_CORRUPT: _ClassVar[Reason]
    FEATURE_UNKNOWN: _ClassVar[Reason]
    BUG: _ClassVar[Reason]

class BackendKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BACKEND_KIND_UNSPECIFIED: _ClassVar[BackendKind]
    DOCKER: _ClassVar[BackendKind]
    BUBBLEWRAP: _ClassVar[BackendKind]
    SEATBELT: _ClassVar[BackendKind]
    LOCAL: _ClassVar[BackendKind]

class SandboxState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SANDBOX_STATE_UNSPECIFIED: _ClassVar[SandboxState]
    CREATING: _ClassVar[SandboxState]
    READY: _ClassVar[SandboxState]
    FAILED: _ClassVar[SandboxState]
    DESTROYED: _ClassVar[SandboxState]
    EXPIRED: _ClassVar[SandboxState]
    LOST: _ClassVar[SandboxState]

class OutputStream(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTPUT_STREAM_UNSPECIFIED: _ClassVar[OutputStream]
    STDOUT: _ClassVar[OutputStream]
    STDERR: _ClassVar[OutputStream]

class ExitCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXIT_CAUSE_UNSPECIFIED: _ClassVar[ExitCause]
    EXITED: _ClassVar[ExitCause]
    TIMED_OUT: _ClassVar[ExitCause]
    SIGNALED_BY_CLIENT: _ClassVar[ExitCause]
    OOM_KILLED: _ClassVar[ExitCause]
    DISK_LIMIT: _ClassVar[ExitCause]
    START_FAILED: _ClassVar[ExitCause]
    EXEC_LEASE_EXPIRED: _ClassVar[ExitCause]
    SANDBOX_DESTROYED: _ClassVar[ExitCause]
    EXEC_SANDBOX_LOST: _ClassVar[ExitCause]

class EgressLayer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EGRESS_LAYER_UNSPECIFIED: _ClassVar[EgressLayer]
    CONNECT: _ClassVar[EgressLayer]
    HTTP: _ClassVar[EgressLayer]
    TRANSPARENT_HTTP: _ClassVar[EgressLayer]
    TRANSPARENT_TLS: _ClassVar[EgressLayer]
    DNS: _ClassVar[EgressLayer]

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    ALLOWED: _ClassVar[Verdict]
    REFUSED: _ClassVar[Verdict]
    ERROR: _ClassVar[Verdict]

class EgressReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EGRESS_REASON_UNSPECIFIED: _ClassVar[EgressReason]
    EXPLICIT_HOST: _ClassVar[EgressReason]
    EXPLICIT_DOCS_HOST: _ClassVar[EgressReason]
    REGISTRY_HOST: _ClassVar[EgressReason]
    NOT_ALLOWLISTED: _ClassVar[EgressReason]
    DOCS_HOST_REQUIRES_READ_DOCS: _ClassVar[EgressReason]
    IP_LITERAL: _ClassVar[EgressReason]
    PORT_NOT_ALLOWED: _ClassVar[EgressReason]
    PRIVATE_ADDRESS: _ClassVar[EgressReason]
    SELF_CONNECTION: _ClassVar[EgressReason]
    UNMAPPED_ADDRESS: _ClassVar[EgressReason]
    MALFORMED_TARGET: _ClassVar[EgressReason]
    MALFORMED_REQUEST: _ClassVar[EgressReason]
    AUTHORITY_MISMATCH: _ClassVar[EgressReason]
    METHOD_NOT_ALLOWED: _ClassVar[EgressReason]
    SCHEME_NOT_ALLOWED: _ClassVar[EgressReason]
    HEADERS_TOO_LARGE: _ClassVar[EgressReason]
    NON_TLS_ON_443: _ClassVar[EgressReason]
    TLS_NAME_MISSING: _ClassVar[EgressReason]
    TLS_NAME_MISMATCH: _ClassVar[EgressReason]
    CLIENT_HELLO_TOO_LARGE: _ClassVar[EgressReason]
    UPGRADE_NOT_ALLOWED: _ClassVar[EgressReason]
    MALFORMED_DNS: _ClassVar[EgressReason]
    TOO_MANY_CONNECTIONS: _ClassVar[EgressReason]
    TOO_MANY_NAMES: _ClassVar[EgressReason]
    CLIENT_TIMEOUT: _ClassVar[EgressReason]
    RATE_LIMITED: _ClassVar[EgressReason]
    DNS_FAILURE: _ClassVar[EgressReason]
    CONNECT_FAILURE: _ClassVar[EgressReason]
    UPSTREAM_TIMEOUT: _ClassVar[EgressReason]
    UPSTREAM_CLOSED: _ClassVar[EgressReason]
    UPSTREAM_MALFORMED: _ClassVar[EgressReason]
    UPSTREAM_SERVER_ERROR: _ClassVar[EgressReason]
REASON_UNSPECIFIED: Reason
SPEC_INVALID: Reason
CERT_REQUIRED: Reason
ROLE: Reason
NOT_OWNER: Reason
SANDBOX_UNKNOWN: Reason
EXEC_UNKNOWN: Reason
PATH_NOT_FOUND: Reason
ID_REUSED: Reason
STALE_OWNER: Reason
TOMBSTONED: Reason
LEASE_EXPIRED: Reason
SANDBOX_LOST: Reason
NOT_READY: Reason
BACKEND_UNSUPPORTED: Reason
ISOLATION_UNAVAILABLE: Reason
API_RANGE: Reason
IMAGE_UNAVAILABLE: Reason
NO_SLOT: Reason
DISK_LOW: Reason
MEMORY: Reason
LIMIT_PER_OWNER: Reason
BACKEND_DOWN: Reason
DRAINING: Reason
STARTING: Reason
OFFSET_BEYOND_END: Reason
LOG_CORRUPT: Reason
FEATURE_UNKNOWN: Reason
BUG: Reason
BACKEND_KIND_UNSPECIFIED: BackendKind
DOCKER: BackendKind
BUBBLEWRAP: BackendKind
SEATBELT: BackendKind
LOCAL: BackendKind
SANDBOX_STATE_UNSPECIFIED: SandboxState
CREATING: SandboxState
READY: SandboxState
FAILED: SandboxState
DESTROYED: SandboxState
EXPIRED: SandboxState
LOST: SandboxState
OUTPUT_STREAM_UNSPECIFIED: OutputStream
STDOUT: OutputStream
STDERR: OutputStream
EXIT_CAUSE_UNSPECIFIED: ExitCause
EXITED: ExitCause
TIMED_OUT: ExitCause
SIGNALED_BY_CLIENT: ExitCause
OOM_KILLED: ExitCause
DISK_LIMIT: ExitCause
START_FAILED: ExitCause
EXEC_LEASE_EXPIRED: ExitCause
SANDBOX_DESTROYED: ExitCause
EXEC_SANDBOX_LOST: ExitCause
EGRESS_LAYER_UNSPECIFIED: EgressLayer
CONNECT: EgressLayer
HTTP: EgressLayer
TRANSPARENT_HTTP: EgressLayer
TRANSPARENT_TLS: EgressLayer
DNS: EgressLayer
VERDICT_UNSPECIFIED: Verdict
ALLOWED: Verdict
REFUSED: Verdict
ERROR: Verdict
EGRESS_REASON_UNSPECIFIED: EgressReason
EXPLICIT_HOST: EgressReason
EXPLICIT_DOCS_HOST: EgressReason
REGISTRY_HOST: EgressReason
NOT_ALLOWLISTED: EgressReason
DOCS_HOST_REQUIRES_READ_DOCS: EgressReason
IP_LITERAL: EgressReason
PORT_NOT_ALLOWED: EgressReason
PRIVATE_ADDRESS: EgressReason
SELF_CONNECTION: EgressReason
UNMAPPED_ADDRESS: EgressReason
MALFORMED_TARGET: EgressReason
MALFORMED_REQUEST: EgressReason
AUTHORITY_MISMATCH: EgressReason
METHOD_NOT_ALLOWED: EgressReason
SCHEME_NOT_ALLOWED: EgressReason
HEADERS_TOO_LARGE: EgressReason
NON_TLS_ON_443: EgressReason
TLS_NAME_MISSING: EgressReason
TLS_NAME_MISMATCH: EgressReason
CLIENT_HELLO_TOO_LARGE: EgressReason
UPGRADE_NOT_ALLOWED: EgressReason
MALFORMED_DNS: EgressReason
TOO_MANY_CONNECTIONS: EgressReason
TOO_MANY_NAMES: EgressReason
CLIENT_TIMEOUT: EgressReason
RATE_LIMITED: EgressReason
DNS_FAILURE: EgressReason
CONNECT_FAILURE: EgressReason
UPSTREAM_TIMEOUT: EgressReason
UPSTREAM_CLOSED: EgressReason
UPSTREAM_MALFORMED: EgressReason
UPSTREAM_SERVER_ERROR: EgressReason

class GetInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetInfoResponse(_message.Message):
    __slots__ = ("api_min", "api_max", "features", "software_version", "node_id", "instance_id", "backends", "auto_backend", "limits", "capacity", "allow_private")
    API_MIN_FIELD_NUMBER: _ClassVar[int]
    API_MAX_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    BACKENDS_FIELD_NUMBER: _ClassVar[int]
    AUTO_BACKEND_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    ALLOW_PRIVATE_FIELD_NUMBER: _ClassVar[int]
    api_min: int
    api_max: int
    features: _containers.RepeatedScalarFieldContainer[str]
    software_version: str
    node_id: str
    instance_id: str
    backends: _containers.RepeatedCompositeFieldContainer[BackendInfo]
    auto_backend: BackendKind
    limits: RunnerLimits
    capacity: Capacity
    allow_private: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, api_min: _Optional[int] = ..., api_max: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ..., software_version: _Optional[str] = ..., node_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., backends: _Optional[_Iterable[_Union[BackendInfo, _Mapping]]] = ..., auto_backend: _Optional[_Union[BackendKind, str]] = ..., limits: _Optional[_Union[RunnerLimits, _Mapping]] = ..., capacity: _Optional[_Union[Capacity, _Mapping]] = ..., allow_private: _Optional[_Iterable[str]] = ...) -> None: ...

class BackendInfo(_message.Message):
    __slots__ = ("kind", "available", "enforced", "uses_image", "why", "remedy", "version")
    KIND_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    ENFORCED_FIELD_NUMBER: _ClassVar[int]
    USES_IMAGE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    kind: BackendKind
    available: bool
    enforced: bool
    uses_image: bool
    why: str
    remedy: str
    version: str
    def __init__(self, kind: _Optional[_Union[BackendKind, str]] = ..., available: _Optional[bool] = ..., enforced: _Optional[bool] = ..., uses_image: _Optional[bool] = ..., why: _Optional[str] = ..., remedy: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class RunnerLimits(_message.Message):
    __slots__ = ("max_lease_ttl", "max_lifetime", "max_exec_timeout", "max_output_bytes")
    MAX_LEASE_TTL_FIELD_NUMBER: _ClassVar[int]
    MAX_LIFETIME_FIELD_NUMBER: _ClassVar[int]
    MAX_EXEC_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    max_lease_ttl: _duration_pb2.Duration
    max_lifetime: _duration_pb2.Duration
    max_exec_timeout: _duration_pb2.Duration
    max_output_bytes: int
    def __init__(self, max_lease_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_lifetime: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_exec_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_output_bytes: _Optional[int] = ...) -> None: ...

class Capacity(_message.Message):
    __slots__ = ("state", "why", "slots_total", "slots_used", "memory_total_bytes", "memory_free_bytes", "disk_free_bytes")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[Capacity.State]
        SERVING: _ClassVar[Capacity.State]
        DRAINING: _ClassVar[Capacity.State]
        DEGRADED: _ClassVar[Capacity.State]
    STATE_UNSPECIFIED: Capacity.State
    SERVING: Capacity.State
    DRAINING: Capacity.State
    DEGRADED: Capacity.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    SLOTS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    SLOTS_USED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    state: Capacity.State
    why: str
    slots_total: int
    slots_used: int
    memory_total_bytes: int
    memory_free_bytes: int
    disk_free_bytes: int
    def __init__(self, state: _Optional[_Union[Capacity.State, str]] = ..., why: _Optional[str] = ..., slots_total: _Optional[int] = ..., slots_used: _Optional[int] = ..., memory_total_bytes: _Optional[int] = ..., memory_free_bytes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ...) -> None: ...

class WatchCapacityRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("running",)
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    running: int
    def __init__(self, running: _Optional[int] = ...) -> None: ...

class NetworkPolicy(_message.Message):
    __slots__ = ("explicit_hosts", "docs_hosts", "registry_hosts")
    EXPLICIT_HOSTS_FIELD_NUMBER: _ClassVar[int]
    DOCS_HOSTS_FIELD_NUMBER: _ClassVar[int]
    REGISTRY_HOSTS_FIELD_NUMBER: _ClassVar[int]
    explicit_hosts: _containers.RepeatedScalarFieldContainer[str]
    docs_hosts: _containers.RepeatedScalarFieldContainer[str]
    registry_hosts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, explicit_hosts: _Optional[_Iterable[str]] = ..., docs_hosts: _Optional[_Iterable[str]] = ..., registry_hosts: _Optional[_Iterable[str]] = ...) -> None: ...

class Resources(_message.Message):
    __slots__ = ("cpus", "memory_bytes", "pids", "disk_bytes")
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    PIDS_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_FIELD_NUMBER: _ClassVar[int]
    cpus: float
    memory_bytes: int
    pids: int
    disk_bytes: int
    def __init__(self, cpus: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., pids: _Optional[int] = ..., disk_bytes: _Optional[int] = ...) -> None: ...

class SandboxSpec(_message.Message):
    __slots__ = ("backend", "image", "allow_unenforced", "network", "resources", "labels", "required_features")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    ALLOW_UNENFORCED_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FEATURES_FIELD_NUMBER: _ClassVar[int]
    backend: BackendKind
    image: str
    allow_unenforced: bool
    network: NetworkPolicy
    resources: Resources
    labels: _containers.ScalarMap[str, str]
    required_features: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, backend: _Optional[_Union[BackendKind, str]] = ..., image: _Optional[str] = ..., allow_unenforced: _Optional[bool] = ..., network: _Optional[_Union[NetworkPolicy, _Mapping]] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., required_features: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateRequest(_message.Message):
    __slots__ = ("sandbox_id", "spec", "run_id", "owner_token", "lease_ttl", "hard_lifetime")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_FIELD_NUMBER: _ClassVar[int]
    HARD_LIFETIME_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    spec: SandboxSpec
    run_id: str
    owner_token: bytes
    lease_ttl: _duration_pb2.Duration
    hard_lifetime: _duration_pb2.Duration
    def __init__(self, sandbox_id: _Optional[str] = ..., spec: _Optional[_Union[SandboxSpec, _Mapping]] = ..., run_id: _Optional[str] = ..., owner_token: _Optional[bytes] = ..., lease_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., hard_lifetime: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("reason", "message", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    reason: Reason
    message: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, reason: _Optional[_Union[Reason, str]] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Sandbox(_message.Message):
    __slots__ = ("sandbox_id", "run_id", "state", "error", "generation", "lease_left", "lifetime_left", "node_id", "instance_id", "backend", "enforced", "image", "image_digest", "workspace", "shell", "resources", "created", "timings", "labels", "exec_ids")
    class TimingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _duration_pb2.Duration
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LEASE_LEFT_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    ENFORCED_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    SHELL_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    EXEC_IDS_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    run_id: str
    state: SandboxState
    error: Failure
    generation: int
    lease_left: _duration_pb2.Duration
    lifetime_left: _duration_pb2.Duration
    node_id: str
    instance_id: str
    backend: BackendKind
    enforced: bool
    image: str
    image_digest: str
    workspace: str
    shell: str
    resources: Resources
    created: _timestamp_pb2.Timestamp
    timings: _containers.MessageMap[str, _duration_pb2.Duration]
    labels: _containers.ScalarMap[str, str]
    exec_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sandbox_id: _Optional[str] = ..., run_id: _Optional[str] = ..., state: _Optional[_Union[SandboxState, str]] = ..., error: _Optional[_Union[Failure, _Mapping]] = ..., generation: _Optional[int] = ..., lease_left: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lifetime_left: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., node_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., backend: _Optional[_Union[BackendKind, str]] = ..., enforced: _Optional[bool] = ..., image: _Optional[str] = ..., image_digest: _Optional[str] = ..., workspace: _Optional[str] = ..., shell: _Optional[str] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., created: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., timings: _Optional[_Mapping[str, _duration_pb2.Duration]] = ..., labels: _Optional[_Mapping[str, str]] = ..., exec_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("sandbox_id",)
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    def __init__(self, sandbox_id: _Optional[str] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("run_id", "ended")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    ended: bool
    def __init__(self, run_id: _Optional[str] = ..., ended: _Optional[bool] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("sandboxes",)
    SANDBOXES_FIELD_NUMBER: _ClassVar[int]
    sandboxes: _containers.RepeatedCompositeFieldContainer[Sandbox]
    def __init__(self, sandboxes: _Optional[_Iterable[_Union[Sandbox, _Mapping]]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("sandbox_id",)
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    def __init__(self, sandbox_id: _Optional[str] = ...) -> None: ...

class RenewLeasesRequest(_message.Message):
    __slots__ = ("sandbox_ids", "owner_token", "lease_ttl")
    SANDBOX_IDS_FIELD_NUMBER: _ClassVar[int]
    OWNER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_FIELD_NUMBER: _ClassVar[int]
    sandbox_ids: _containers.RepeatedScalarFieldContainer[str]
    owner_token: bytes
    lease_ttl: _duration_pb2.Duration
    def __init__(self, sandbox_ids: _Optional[_Iterable[str]] = ..., owner_token: _Optional[bytes] = ..., lease_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RenewLeasesResponse(_message.Message):
    __slots__ = ("results",)
    class Result(_message.Message):
        __slots__ = ("sandbox_id", "lease_left", "error")
        SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
        LEASE_LEFT_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        sandbox_id: str
        lease_left: _duration_pb2.Duration
        error: Failure
        def __init__(self, sandbox_id: _Optional[str] = ..., lease_left: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., error: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[RenewLeasesResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[RenewLeasesResponse.Result, _Mapping]]] = ...) -> None: ...

class AdoptRequest(_message.Message):
    __slots__ = ("run_id", "owner_token", "new_owner_token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    NEW_OWNER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    owner_token: bytes
    new_owner_token: bytes
    def __init__(self, run_id: _Optional[str] = ..., owner_token: _Optional[bytes] = ..., new_owner_token: _Optional[bytes] = ...) -> None: ...

class AdoptResponse(_message.Message):
    __slots__ = ("sandboxes",)
    SANDBOXES_FIELD_NUMBER: _ClassVar[int]
    sandboxes: _containers.RepeatedCompositeFieldContainer[Sandbox]
    def __init__(self, sandboxes: _Optional[_Iterable[_Union[Sandbox, _Mapping]]] = ...) -> None: ...

class DestroyRequest(_message.Message):
    __slots__ = ("sandbox_id", "owner_token", "wait")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    owner_token: bytes
    wait: bool
    def __init__(self, sandbox_id: _Optional[str] = ..., owner_token: _Optional[bytes] = ..., wait: _Optional[bool] = ...) -> None: ...

class UploadRequest(_message.Message):
    __slots__ = ("header", "chunk")
    class Header(_message.Message):
        __slots__ = ("sandbox_id", "owner_token", "path")
        SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
        OWNER_TOKEN_FIELD_NUMBER: _ClassVar[int]
        PATH_FIELD_NUMBER: _ClassVar[int]
        sandbox_id: str
        owner_token: bytes
        path: bytes
        def __init__(self, sandbox_id: _Optional[str] = ..., owner_token: _Optional[bytes] = ..., path: _Optional[bytes] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    header: UploadRequest.Header
    chunk: bytes
    def __init__(self, header: _Optional[_Union[UploadRequest.Header, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class UploadResponse(_message.Message):
    __slots__ = ("bytes", "entries")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    entries: int
    def __init__(self, bytes: _Optional[int] = ..., entries: _Optional[int] = ...) -> None: ...

class DownloadRequest(_message.Message):
    __slots__ = ("sandbox_id", "owner_token", "path")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    owner_token: bytes
    path: bytes
    def __init__(self, sandbox_id: _Optional[str] = ..., owner_token: _Optional[bytes] = ..., path: _Optional[bytes] = ...) -> None: ...

class DownloadResponse(_message.Message):
    __slots__ = ("chunk", "trailer")
    class Trailer(_message.Message):
        __slots__ = ("sha256", "bytes", "left_out")
        SHA256_FIELD_NUMBER: _ClassVar[int]
        BYTES_FIELD_NUMBER: _ClassVar[int]
        LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
        sha256: bytes
        bytes: int
        left_out: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, sha256: _Optional[bytes] = ..., bytes: _Optional[int] = ..., left_out: _Optional[_Iterable[str]] = ...) -> None: ...
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    TRAILER_FIELD_NUMBER: _ClassVar[int]
    chunk: bytes
    trailer: DownloadResponse.Trailer
    def __init__(self, chunk: _Optional[bytes] = ..., trailer: _Optional[_Union[DownloadResponse.Trailer, _Mapping]] = ...) -> None: ...

class ExecSpec(_message.Message):
    __slots__ = ("argv", "cwd", "env", "stdin", "timeout", "kill_grace", "output_limit")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ARGV_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    KILL_GRACE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LIMIT_FIELD_NUMBER: _ClassVar[int]
    argv: _containers.RepeatedScalarFieldContainer[str]
    cwd: str
    env: _containers.ScalarMap[str, str]
    stdin: bytes
    timeout: _duration_pb2.Duration
    kill_grace: _duration_pb2.Duration
    output_limit: int
    def __init__(self, argv: _Optional[_Iterable[str]] = ..., cwd: _Optional[str] = ..., env: _Optional[_Mapping[str, str]] = ..., stdin: _Optional[bytes] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., kill_grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., output_limit: _Optional[int] = ...) -> None: ...

class StartRequest(_message.Message):
    __slots__ = ("sandbox_id", "owner_token", "exec_id", "spec")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    owner_token: bytes
    exec_id: str
    spec: ExecSpec
    def __init__(self, sandbox_id: _Optional[str] = ..., owner_token: _Optional[bytes] = ..., exec_id: _Optional[str] = ..., spec: _Optional[_Union[ExecSpec, _Mapping]] = ...) -> None: ...

class Exec(_message.Message):
    __slots__ = ("sandbox_id", "exec_id", "spec", "running", "exit", "end_offset")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    exec_id: str
    spec: ExecSpec
    running: bool
    exit: Exit
    end_offset: int
    def __init__(self, sandbox_id: _Optional[str] = ..., exec_id: _Optional[str] = ..., spec: _Optional[_Union[ExecSpec, _Mapping]] = ..., running: _Optional[bool] = ..., exit: _Optional[_Union[Exit, _Mapping]] = ..., end_offset: _Optional[int] = ...) -> None: ...

class GetExecRequest(_message.Message):
    __slots__ = ("sandbox_id", "exec_id")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    exec_id: str
    def __init__(self, sandbox_id: _Optional[str] = ..., exec_id: _Optional[str] = ...) -> None: ...

class SignalRequest(_message.Message):
    __slots__ = ("sandbox_id", "owner_token", "exec_id", "signal", "everything")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    EVERYTHING_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    owner_token: bytes
    exec_id: str
    signal: int
    everything: bool
    def __init__(self, sandbox_id: _Optional[str] = ..., owner_token: _Optional[bytes] = ..., exec_id: _Optional[str] = ..., signal: _Optional[int] = ..., everything: _Optional[bool] = ...) -> None: ...

class ReadLogRequest(_message.Message):
    __slots__ = ("sandbox_id", "exec_id", "offset", "follow")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    exec_id: str
    offset: int
    follow: bool
    def __init__(self, sandbox_id: _Optional[str] = ..., exec_id: _Optional[str] = ..., offset: _Optional[int] = ..., follow: _Optional[bool] = ...) -> None: ...

class LogRecord(_message.Message):
    __slots__ = ("data", "gap", "exit", "heartbeat")
    DATA_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    data: Data
    gap: Gap
    exit: Exit
    heartbeat: Heartbeat
    def __init__(self, data: _Optional[_Union[Data, _Mapping]] = ..., gap: _Optional[_Union[Gap, _Mapping]] = ..., exit: _Optional[_Union[Exit, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ...) -> None: ...

class Data(_message.Message):
    __slots__ = ("offset", "stream", "data")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offset: int
    stream: OutputStream
    data: bytes
    def __init__(self, offset: _Optional[int] = ..., stream: _Optional[_Union[OutputStream, str]] = ..., data: _Optional[bytes] = ...) -> None: ...

class Gap(_message.Message):
    __slots__ = ("to",)
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    to: int
    def __init__(self, to: _Optional[int] = ..., **kwargs) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class Exit(_message.Message):
    __slots__ = ("cause", "code", "signal", "wall", "output_bytes", "cut_bytes", "message")
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    WALL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    CUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    cause: ExitCause
    code: int
    signal: int
    wall: _duration_pb2.Duration
    output_bytes: int
    cut_bytes: int
    message: str
    def __init__(self, cause: _Optional[_Union[ExitCause, str]] = ..., code: _Optional[int] = ..., signal: _Optional[int] = ..., wall: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., output_bytes: _Optional[int] = ..., cut_bytes: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class StreamRequest(_message.Message):
    __slots__ = ("sandbox_id", "after_seq")
    SANDBOX_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQ_FIELD_NUMBER: _ClassVar[int]
    sandbox_id: str
    after_seq: int
    def __init__(self, sandbox_id: _Optional[str] = ..., after_seq: _Optional[int] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("seq", "time", "exec_id", "egress", "limit", "lifecycle", "dropped")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    EGRESS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LIFECYCLE_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    seq: int
    time: _timestamp_pb2.Timestamp
    exec_id: str
    egress: EgressDecision
    limit: LimitReached
    lifecycle: Lifecycle
    dropped: Dropped
    def __init__(self, seq: _Optional[int] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., exec_id: _Optional[str] = ..., egress: _Optional[_Union[EgressDecision, _Mapping]] = ..., limit: _Optional[_Union[LimitReached, _Mapping]] = ..., lifecycle: _Optional[_Union[Lifecycle, _Mapping]] = ..., dropped: _Optional[_Union[Dropped, _Mapping]] = ...) -> None: ...

class EgressDecision(_message.Message):
    __slots__ = ("layer", "verdict", "reason", "host", "port", "target", "method", "path", "status", "bytes_up", "bytes_down", "duration", "count", "address", "detail")
    LAYER_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    BYTES_UP_FIELD_NUMBER: _ClassVar[int]
    BYTES_DOWN_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    layer: EgressLayer
    verdict: Verdict
    reason: EgressReason
    host: str
    port: int
    target: str
    method: str
    path: str
    status: int
    bytes_up: int
    bytes_down: int
    duration: _duration_pb2.Duration
    count: int
    address: str
    detail: str
    def __init__(self, layer: _Optional[_Union[EgressLayer, str]] = ..., verdict: _Optional[_Union[Verdict, str]] = ..., reason: _Optional[_Union[EgressReason, str]] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., target: _Optional[str] = ..., method: _Optional[str] = ..., path: _Optional[str] = ..., status: _Optional[int] = ..., bytes_up: _Optional[int] = ..., bytes_down: _Optional[int] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., count: _Optional[int] = ..., address: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class LimitReached(_message.Message):
    __slots__ = ("kind", "value")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[LimitReached.Kind]
        OUTPUT: _ClassVar[LimitReached.Kind]
        TIME: _ClassVar[LimitReached.Kind]
        MEMORY: _ClassVar[LimitReached.Kind]
        PIDS: _ClassVar[LimitReached.Kind]
        DISK: _ClassVar[LimitReached.Kind]
    KIND_UNSPECIFIED: LimitReached.Kind
    OUTPUT: LimitReached.Kind
    TIME: LimitReached.Kind
    MEMORY: LimitReached.Kind
    PIDS: LimitReached.Kind
    DISK: LimitReached.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    kind: LimitReached.Kind
    value: int
    def __init__(self, kind: _Optional[_Union[LimitReached.Kind, str]] = ..., value: _Optional[int] = ...) -> None: ...

class Lifecycle(_message.Message):
    __slots__ = ("state", "detail")
    STATE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    state: SandboxState
    detail: str
    def __init__(self, state: _Optional[_Union[SandboxState, str]] = ..., detail: _Optional[str] = ...) -> None: ...

class Dropped(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...
