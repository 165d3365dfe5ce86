"""What a controller and a sandboxd daemon must read alike.

`v1` is the wire contract (generated from `v1/sandbox.proto`, whose comments are its reference). `hosts` says what a
hostname and an allowlist entry are and what an entry matches; `addresses` says which addresses may be dialled. Both
are pure: no socket, no resolver, no clock.
"""
