"""The daemon that owns everything untrusted: sandboxes, their environment and their one way out.

`services` translates gRPC, `sandboxes` keeps leases over what a `backends` backend made, `execlog` keeps a command's
output, `egress` decides and carries every connection. I/O happens in `services`, `backends` and `egress.gateway`.
"""

__version__ = "0.1.0"
