"""A sandbox's one way out: an allowlisting proxy and name server, served on sockets inside the sandbox's namespace.

The nouns, in the order in which a connection meets them:

* a *path* is one of the ways in: CONNECT and absolute-URI requests to the proxy, captured connections to ports 80 and
  443, DNS over UDP and TCP;
* a *target* is the host and port that a path's client asks for; the *policy* allows or refuses it, with one function
  for every path;
* a *refusal* is the one error: something is not let through, for a reason from the contract's closed list;
* a *record* tells the events of one passage: the decision when it is made, a failure, the end;
* an *upstream* is what an allowed name resolves to, once every address has been judged.

Values in, values out, without a socket or an await: `policy`, `http1`, `framing`, `client_hello`, `dns`, `synthetic`,
`answers`, `limits`, `refusal` and `record`. I/O is in `gateway` (listeners), in `nameserver`, `session`, `exchange` and
`tunnel` (a connection each), and in what these use: `wire`, `relay` and `upstream`. The planted sockets are made by the
backends, with what is in `plant`.
"""
