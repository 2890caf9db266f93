"""How long does `import placet` take?

    ./dev python benchmarks/bench_import.py [--json]

In a fresh interpreter, bytecode written, less the start of an interpreter that imports nothing.

It does not show: a cold disk, the first world (its pydantic models are compiled when it is made).
"""

from measuring import measure

if __name__ == "__main__":
    measure(["import"], __doc__)
