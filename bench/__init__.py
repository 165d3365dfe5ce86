"""What we promise about speed, measured.

A bar is a ratio between our code (the candidate) and the least that the same work costs without it (the reference).
Both are measured in one run, in turns, so that a busy machine slows both: only ratios mean something. `bars` is the
list, one file a topic has the measurements, and `measure` is what they are made of.
"""
