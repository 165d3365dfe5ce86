"""What to do: task files and the tasks that they hold.

`files` finds them, `document` reads YAML with the place of every value, `schema` says what is allowed, `load` makes of
these a `model.Task` or `problems`, and `lint` adds warnings. Import the module that is needed: most of the controller
needs the model alone, without YAML. `load` is the only one that reads task files.
"""
