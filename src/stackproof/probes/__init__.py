"""What the suites ask of a device and of training data, a module for each subject; the suites say what must hold.

May import: `device` and below.
Runs in: the stack's environment.
"""
