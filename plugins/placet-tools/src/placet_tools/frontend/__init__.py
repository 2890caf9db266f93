"""The impure half of the tools: the gate that a program calls, and the executors."""
