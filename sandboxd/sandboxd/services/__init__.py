"""The gRPC services: translate, authorise, delegate. One file a service, and no logic.

`rules` checks the bounds of requests, `errors` turns what the daemon refuses into codes with reasons, and `calls`
is what every call goes through: who asks, one log line, no traceback to anybody.
"""
