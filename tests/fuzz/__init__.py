"""Mutated files of every format that is read, and what reading them may lead to.

    make fuzz                                          all formats, many numbers
    python -m tests.fuzz --format kineto --number 12   one of them again, with everything that is known about it

Everything follows from a format and a number: which seed, which mutations, how the result is used. So every finding
can be repeated by the two. Reading must end in a trace that can be used or in an error of this package, within bounded
time and memory; and it changes nothing outside the files that it was given, nor a cycle that is finished.
"""
