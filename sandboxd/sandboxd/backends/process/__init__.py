"""The daemon's end of backends whose sandboxes are processes of this host: bubblewrap, seatbelt and local.

`spawn` starts a sandbox's supervisor (`sandboxd.inside.supervisor`), `channel` and `supervisor` talk with it, `output`
reads what commands print, and `sandbox` puts them together into what `sandboxd.backends.base` asks for. Directories are
`files` and `tree`, limits `group` and `watch`. What a backend adds is how the supervisor is started, and in what.
"""
