"""CPU time and memory of `import dragoman`, compared with a bare interpreter."""

from importlib.util import find_spec

from benchmarks.clock import fresh
from benchmarks.table import ABSENT, Section, mb, ms
from dragoman import wires

_EVERY_WIRE = f"import dragoman\nfrom dragoman import wires\nfor name in {wires.NAMES!r}: wires.get(name)"
_OURS = {"import dragoman": "import dragoman", "import dragoman and every wire": _EVERY_WIRE}
_PEERS = ("openai", "anthropic", "ollama")


def imports() -> Section:
    """CPU time and memory, minus those of an interpreter that does nothing."""
    work = {
        "bare interpreter": "pass",
        **_OURS,
        **{f"import {name}": f"import {name}" for name in _PEERS if find_spec(name)},
    }
    (bare_cpu, bare_rss), *others = fresh(list(work.values()))
    rows = [("bare interpreter", ms(bare_cpu), mb(bare_rss))]
    for name, (cpu, rss) in zip(list(work)[1:], others, strict=True):
        rows.append((name, f"+{ms(cpu - bare_cpu)}", f"+{mb(rss - bare_rss)}"))
    rows += [(f"import {name}", ABSENT, "") for name in _PEERS if not find_spec(name)]
    return Section("(a) import, in a fresh interpreter", ("", "CPU", "RSS"), rows)
