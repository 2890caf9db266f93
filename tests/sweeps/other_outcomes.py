"""An outcome function that has the name of another one."""


def agents_left(state):
    return -1
