"""Policies on workers: the policies of a stepped run are called in other processes.

    copies (the state) < job (the run) < worker < processes, on_ray < pool (a tick) < opening

One process decides and writes, as ever. Each worker holds a copy of the state, calls the policies
of its agents, and returns their batches, which are put back in the agents' order. So a run has one
digest and one chain with any number of workers, and through any death of one.
"""
