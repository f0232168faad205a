#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Runs the command lines of README.md and doc/*.md. Each block of commands is fenced as ```sh (a script, which must
succeed) or ```console (lines after "$ " are run, the others are their output; ".." stands for any text), with a
comment on the line before it:

    <!-- run: SETUP [N s] -->     run it (default: 120 s)
    <!-- untested: REASON -->     or say why not

Setups, each as root in mount and network namespaces, with a private /run/uroce and the build's programs in PATH:

    none   no daemon
    pair   a daemon with uroce0 (10.9.0.1) and uroce1 (10.9.0.2), joined in memory
    qp     the same with a queue pair; QPN, DEVICE and FILE in the block are replaced
    host   no daemon; interface eth0 with 192.168.1.20/24, a neighbour at 192.168.1.21
    two    two machines, 192.168.1.20 and .21: the parts after the lines `# first machine`, `# second machine`. The
           second starts when the programs of the first listen, or its part has ended

A ```yaml block with such a comment is a job of GitHub Actions: the steps whose names begin with RDMA are run, one after
the other in one shell.

The scripts' standard input is a terminal, as a person's: UCX of Debian 13 takes any other for the work of mpirun.
After a line that starts a uroced in the background the script waits for the daemon's socket, as a person would, unless
uroce-run follows, which waits by itself.
A block without such a comment, an indented block with a command of uroce, and a block of an unknown language fail.
Arguments: names of documents, to run only these; without any, all. With --check it runs no command and needs no root:
it only looks for blocks that do not say how they are tested (suite lint).
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import lib

ROOT = lib.HERE.parent.parent
PROGRAMS = ("app/uroced/uroced", "app/urocectl/urocectl", "app/uroce-run/uroce-run", "app/uroce-bench/uroce-bench")
COMMAND = re.compile(r"(^|/)(uroced|urocectl|uroce-run|uroce-bench|podman|mpirun|demo\.sh|check\.sh)\b")
HOW = re.compile(r"<!-- (?:run: (?P<setup>none|pair|qp|host|two)(?: (?P<limit>\d+) s)?|untested: (?P<reason>.+)) -->$")
STEP = re.compile(r" *- name: RDMA.*\n *run: \|\n((?: {10}.*\n|\n)+)")
PLAIN = ("text", "yaml", "json", "ini", "c", "python")  # fenced, and not run
PRELUDE = """set -e
export PATH={bin}:$PATH UROCE_DOCS=1
mkdir -p /run/uroce /run/dpdk /etc/cdi
for dir in /run/uroce /run/dpdk /etc/cdi; do mount -t tmpfs tmpfs $dir; done
cd {work}
trap 'jobs=$(jobs -p); [ -z "$jobs" ] || kill $jobs 2>/dev/null; wait' EXIT
_ready() {{ for _ in $(seq 600); do [ -S /run/uroce/uroced.sock ] && return; sleep 0.1; done; false; }}
"""
PAIR = """uroced --no-huge --idle adaptive --pair p --dev name=uroce0,port=net_ring_pa,addr=10.9.0.1/24 \\
    --dev name=uroce1,port=net_ring_pb,addr=10.9.0.2/24 >/dev/null 2>&1 &
_ready
"""
QP = """uroce-run ibv_rc_pingpong -d uroce0 -g 1 >/dev/null 2>&1 &
for _ in $(seq 600); do urocectl --json show qp | grep -q '"qpn"' && break; sleep 0.1; done
QPN=$(urocectl --json show qp | sed -n 's/.*"qpn": *\\([0-9]*\\).*/\\1/p' | tail -1)
"""


class Block:
    """A fenced or indented block: document, line, language, the line before it, text."""

    def __init__(self, doc, line, language, before, lines):
        self.doc, self.line, self.language, self.lines = doc, line, language, lines
        self.how = HOW.match(before.strip())
        self.before = before

    def __str__(self):
        return f"{self.doc}:{self.line}"

    def problem(self):
        """Why this block cannot be tested, or None."""
        if self.language is None:
            if any(COMMAND.search(line.split(maxsplit=1)[0]) for line in self.lines if line.strip()):
                return f"{self}: an indented block with a command: fence it as ```sh or ```console"
        elif self.language in ("sh", "console"):
            if not self.how:
                return f"{self}: no <!-- run: SETUP --> or <!-- untested: REASON --> on the line before"
        elif self.language not in PLAIN:
            return f"{self}: unknown language '{self.language}' of a block"
        return None


def blocks(doc):
    """All blocks of a document."""
    lines = (ROOT / doc).read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        first, line = at, lines[at]
        at += 1
        if line.startswith("```"):
            while lines[at] != "```":
                at += 1
            yield Block(doc, first + 1, line[3:].strip(), lines[first - 1] if first else "", lines[first + 1:at])
            at += 1
        elif line.startswith("    ") and first and not lines[first - 1].strip():
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            yield Block(doc, first + 1, None, "", [text[4:] for text in lines[first:at]])


def script_of(lines):
    """The lines with a wait behind each start of a daemon that no uroce-run follows."""
    out, command, starting = [], "", False
    for line in [*lines, ""]:
        if starting and not re.match(r"\s*(\S*/)?uroce-run ", line):
            out.append("_ready")
        starting = False
        out.append(line)
        command += line.split(" #")[0].rstrip()
        if command.endswith("\\"):
            continue
        starting = re.search(r"\buroced\b.* &$", command) is not None
        command = ""
    return "\n".join(out) + "\n"


def commands_and_outputs(lines):
    """Of a console block: (command, its output) in turn. A command that ends with \\ continues."""
    pairs = []
    for line in lines:
        if line.startswith("$ "):
            pairs.append([line[2:], []])
        elif pairs and pairs[-1][0].endswith("\\") and not pairs[-1][1]:
            pairs[-1][0] += "\n" + line
        else:
            assert pairs, "output before the first command"
            pairs[-1][1].append(line)
    return pairs


def matches(expected, got):
    """Is every line of expected found in got, in this order? ".." stands for any text."""
    lines = iter(got.splitlines())
    for want in expected:
        pattern = ".*".join(re.escape(part.strip()) for part in re.split(r"\.\.+", " ".join(want.split())))
        if not any(re.fullmatch(pattern, " ".join(line.split())) for line in lines):
            return want
    return None


def entered(script):
    """Has the script entered its namespaces? Until then it has those of all other tests."""
    try:
        return all(os.readlink(f"/proc/{script.pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
                   for kind in ("net", "mnt"))
    except OSError:
        return False  # it has ended


def listens(script):
    """Does a program of the script listen, by TCP or at its daemon? The daemon's socket is in the script's mounts."""
    if not entered(script):
        return False
    inside = pathlib.Path(f"/proc/{script.pid}")
    tables = "".join((inside / "net" / name).read_text() for name in ("tcp", "tcp6") if (inside / "net" / name).exists())
    if any(line.split()[3:4] == ["0A"] for line in tables.splitlines()):
        return True
    shown = subprocess.run([lib.UROCECTL, "--socket", inside / "root/run/uroce/uroced.sock", "--json", "show", "cm"],
                           text=True, capture_output=True, check=False, timeout=60)
    return shown.returncode == 0 and any(row["state"] == "LISTEN" for row in json.loads(shown.stdout)["cm"])


class Place:
    """Where scripts run: a folder with the tree and the build's programs; the namespaces of a setup."""

    def __init__(self):
        self.work, self.bin = lib.tmpdir(), lib.tmpdir()
        for name in ("demo.sh", "config", "scripts", "doc", "test"):
            (self.work / name).symlink_to(ROOT / name)
        (self.work / "build").symlink_to(lib.BUILD)
        for path in PROGRAMS:
            (self.bin / pathlib.Path(path).name).symlink_to(lib.BUILD / path)
        self.prelude = PRELUDE.format(bin=self.bin, work=self.work)

    def start(self, ns, text):
        path = lib.tmpdir() / "script"
        path.write_text(text)
        return lib.spawn(["bash", path], ns=ns, terminal=True)

    @staticmethod
    def machines():
        """Two namespaces with eth0, and a default route."""
        spaces = [lib.netns(), lib.netns()]
        lib.veth(spaces[0], "192.168.1.20/24", spaces[1], "192.168.1.21/24", 1500)
        for ns, other in zip(spaces, ("192.168.1.21", "192.168.1.20")):
            # with link-local addresses, as on most machines, usable at once
            lib.sh("sysctl", "-qw", "net.ipv6.conf.eth0.accept_dad=0", "net.ipv6.conf.eth0.disable_ipv6=0", ns=ns)
            lib.sh("ip", "-n", ns, "route", "add", "default", "via", other)
        return spaces

    def run(self, block):
        setup, seconds = block.how["setup"], int(block.how["limit"] or 120)
        prelude = self.prelude + {"pair": PAIR, "qp": PAIR + QP}.get(setup, "")
        if setup == "two":
            return self.two(block, prelude, seconds)
        ns = self.machines()[0] if setup == "host" else lib.netns()
        if block.language == "console":
            return self.console(block, ns, prelude, seconds)
        if block.language == "yaml":
            steps = STEP.findall("\n".join(block.lines) + "\n")
            assert steps, f"{block}: no step with a name that begins with RDMA"
            self.start(ns, prelude + "".join(map(textwrap.dedent, steps))).result(seconds)
            return None
        proc = self.start(ns, prelude + self.replaced(setup, script_of(block.lines)))
        proc.result(seconds)
        return None

    def replaced(self, setup, text):
        if setup != "qp":
            return text
        return re.sub(r"\bQPN\b", '"$QPN"', text).replace("DEVICE", "uroce0").replace("FILE", f"{self.work}/capture.pcapng")

    def console(self, block, ns, prelude, seconds):
        mark = "--docs-mark--"
        pairs = commands_and_outputs(block.lines)
        script = "".join(f"{script_of(command.splitlines())}echo {mark}\n" for command, _ in pairs)
        said = self.start(ns, prelude + self.replaced(block.how["setup"], script)).result(seconds).split(mark + "\n")
        for (command, expected), got in zip(pairs, said):
            missing = matches(expected, got)
            assert missing is None, f"{block}: $ {command}: no line '{missing}' in\n{got}"

    def two(self, block, prelude, seconds):
        first, second = "\n".join(block.lines).split("# second machine\n")
        assert first.startswith("# first machine\n"), f"{block}: no line '# first machine'"
        spaces = self.machines()
        server = self.start(spaces[0], prelude + script_of(first.splitlines()))
        lib.until(f"{block}: the first machine's program listens", lambda: listens(server) or server.poll() is not None)
        client = self.start(spaces[1], prelude + script_of(second.splitlines()))
        try:
            client.result(seconds)
        finally:
            server.kill()


def documents():
    chosen = [arg for arg in sys.argv[1:] if arg != "--check"]
    names = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "doc").glob("*.md"))]
    return [name for name in names if not chosen or name in chosen]


def self_test():
    """The checks detect the faults that they are meant for."""
    def block(language, before, *lines):
        return Block("x.md", 1, language, before, list(lines))
    assert block("sh", "", "true").problem() and block("console", "text", "$ true").problem()
    assert block("bash", "", "true").problem() and block(None, "", "uroced &").problem()
    assert not block("sh", "<!-- run: pair 5 s -->", "true").problem()
    assert not block("sh", "<!-- untested: no NIC -->", "true").problem()
    assert block("sh", "<!-- untested: -->", "true").problem() and block("sh", "<!-- run: else -->", "true").problem()
    assert matches(["a .. c"], "x\na b c\n") is None and matches(["a .. d"], "a b c") == "a .. d"
    assert matches(["b", "a"], "a\nb\n") == "a"


def main():
    with lib.case("the checks themselves"):
        self_test()
    all_blocks = [block for doc in documents() for block in blocks(doc)]
    with lib.case("every block of commands says how it is tested"):
        problems = [problem for block in all_blocks if (problem := block.problem())]
        assert not problems, "\n".join(problems)
    if "--check" in sys.argv[1:]:
        lib.finish()
    lib.need_root()
    place = Place()
    told = [block for block in all_blocks if block.how and block.language in ("sh", "console", "yaml")]
    for block in told:
        if block.how["reason"]:
            print(f"# {block}: untested: {block.how['reason']}")
            continue
        with lib.case(f"{block}, setup {block.how['setup']}"):
            place.run(block)
    untested = sum(1 for block in told if block.how["reason"])
    print(f"# {len(told)} blocks, of which {untested} are untested")
    lib.finish()


if __name__ == "__main__":
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    main()
