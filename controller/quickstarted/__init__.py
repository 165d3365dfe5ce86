"""The controller: validates tasks, runs agents against sandboxes, decides and records.

`task` is what to do, `docs` what an agent may read, `sandbox` where its commands run, `agents` who does it;
`attempt` puts them together once, `suite` many times, `results` writes down what happened. `cli` only renders.
"""

__version__ = "0.1.0"
