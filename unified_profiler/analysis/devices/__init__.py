"""Analyses of accelerators: when each device worked and why it was idle, launches, copies, collectives and kernels.

Each starts from `work`, the device work of one trace with the calls that launched it; host and device time are never
added up.
"""
