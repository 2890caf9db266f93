"""Programs as a planner would write them, and a driver that proposes them."""

from placet.kernel import KernelConfig
from placet.schemas.limits import Limits
from placet_program import Program
from tests.domains.world_driver import WorldDriver


def node(op, *inputs, **more):
    return {"op": op, "inputs": list(inputs), **more}


def put(function, name, op, *inputs, **more):
    """The mutation that puts a node."""
    made = node(op, *inputs, **more)
    return {"op": "set_node", "function": function, "name": name, "node": made}


def begin(name, returns="int", **params):
    """The mutation that begins a function."""
    listed = [{"name": param, "type": kind} for param, kind in params.items()]
    return {"op": "add_function", "name": name, "params": listed, "returns": returns}


def result(function, name):
    return {"op": "set_result", "function": function, "node": name}


def connect(function, source, target, port):
    return {
        "op": "connect",
        "function": function,
        "source": source,
        "target": target,
        "port": port,
    }


def gone(function, name):
    return {"op": "remove_node", "function": function, "name": name}


def exported(name, returns="int", **params):
    return {**begin(name, returns, **params), "exported": True}


def calculator():
    """Four operations, and a function that chooses among them: 42 mutations."""
    made = []
    for op in ("add", "sub", "mul", "div"):
        made += [
            begin(op, "float", a="float", b="float"),
            put(op, "a", "param", target="a"),
            put(op, "b", "param", target="b"),
            put(op, "r", op, "a", "b"),
            result(op, "r"),
        ]
    made.append(begin("calc", "float", op="str", a="float", b="float"))
    made += [put("calc", name, "param", target=name) for name in ("op", "a", "b")]
    made.append(put("calc", "zero", "const", value=0.0))
    before = "zero"
    for op in ("div", "mul", "sub", "add"):
        made += [
            put("calc", f"k_{op}", "const", value=op),
            put("calc", f"is_{op}", "eq", "op", f"k_{op}"),
            put("calc", f"do_{op}", "call", "a", "b", target=op),
            put("calc", f"s_{op}", "select", f"is_{op}", f"do_{op}", before),
        ]
        before = f"s_{op}"
    return [*made, result("calc", before)]


def factorial():
    """Recursion: n! of ints."""
    return [
        begin("fact", n="int"),
        put("fact", "n", "param", target="n"),
        put("fact", "one", "const", value=1),
        put("fact", "base", "le", "n", "one"),
        put("fact", "less", "sub", "n", "one"),
        put("fact", "rest", "call", "less", target="fact"),
        put("fact", "t", "mul", "n", "rest"),
        put("fact", "r", "select", "base", "one", "t"),
        result("fact", "r"),
    ]


def chain(name, length, op):
    """Batches that make x1 = op(x0, x0), x2 = op(x1, x1), ...: each node needed twice."""
    made = [begin(name, n="int"), put(name, "x0", "param", target="n")]
    made += [put(name, f"x{i}", op, f"x{i - 1}", f"x{i - 1}") for i in range(1, length + 1)]
    made.append(result(name, f"x{length}"))
    return [made[i : i + 128] for i in range(0, len(made), 128)]


class ProgramDriver(WorldDriver):
    """A kernel with a program, and short ways to propose.

    A batch may use much work, so that the bounds of the rules themselves are reached.
    """

    def __init__(self, program=None, **more):
        roomy = KernelConfig(limits=Limits(batch_work_max=10**9))
        super().__init__(program or Program(), **{"config": roomy, **more})

    def ask(self, kind, *, by="ann", context_seq=None, **payload):
        """Propose one intent and return its output."""
        verdict = self.propose(by, f"program.{kind}", context_seq=context_seq, **payload)
        assert verdict.admitted, verdict.refusals
        return verdict.results[0].output

    def refusal(self, kind, *, by="ann", context_seq=None, **payload):
        """Propose one intent that is refused without a change, and return the refusal."""
        before = self.kernel.digest()
        verdict = self.propose(by, f"program.{kind}", context_seq=context_seq, **payload)
        assert not verdict.admitted
        assert self.kernel.digest() == before
        [refusal] = verdict.refusals
        return refusal

    def mutate(self, *mutations, **more):
        return self.ask("mutate_batch", mutations=list(mutations), **more)

    def refused(self, *mutations, **more):
        return self.refusal("mutate_batch", mutations=list(mutations), **more)

    def run(self, function, **inputs):
        return self.ask("simulate", function=function, inputs=inputs)
