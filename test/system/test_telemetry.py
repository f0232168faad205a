#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's telemetry socket, the exporter for Prometheus and the Grafana dashboard, against the daemon's counters."""
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import threading

from prometheus_client.parser import text_string_to_metric_families

import debian
import lib

DASHBOARD = lib.HERE.parent.parent / "config/grafana/uroce.json"
# Labels and variables that Prometheus and Grafana add.
ADDED = {"instance", "job"}


def promtool():
    """promtool of Debian's package prometheus, or None."""
    found = os.environ.get("UROCE_PROMTOOL") or shutil.which("promtool")
    if not found:
        folder = debian.extracted("prometheus")
        found = folder and folder / "usr/bin/promtool"
    return found


def daemon_with(*extra, **more):
    devs = [f"name=uroce{i},port=net_ring_pair{end},addr=10.9.0.{101 + i}/24,mtu=4096" for i, end in enumerate("ab")]
    daemon = lib.Daemon([], devs, lib.netns(), ("--pair", "pair", "--workers", "2", *extra), **more)
    return lib.Link("ring", lib.Side(daemon, "uroce0", "127.0.0.1"), lib.Side(daemon, "uroce1", "127.0.0.1"), 4096)


@contextlib.contextmanager
def exporter(daemon, where, user=()):
    """`urocectl metrics` that listens at `where`, as a process in the daemon's namespace."""
    tool = lib.public_copy() / "app/urocectl/urocectl" if user else lib.UROCECTL
    proc = lib.Proc([*user, tool, "--socket", daemon.socket, "metrics", "--listen", str(where)], daemon.ns, lib.asan_env())
    try:
        lib.until("the exporter listens", lambda: proc.poll() is not None or reachable(daemon, where))
        assert proc.poll() is None, proc.tail()
        yield proc
        assert proc.term() == 0, proc.tail()
    finally:
        proc.kill()


def reachable(daemon, where):
    if str(where).startswith("/"):
        with socket.socket(socket.AF_UNIX) as sock:
            return sock.connect_ex(str(where)) == 0
    return f":{str(where).rsplit(':', 1)[-1]} " in lib.sh("ss", "-Hltn", ns=daemon.ns)


def traffic(link):
    lib.verbs_pair(link.b, link.a, lib.RCDATA, ["-d", "{dev}", "--qps", "4", "--ops", "100"],
                   server_args=["-d", "{dev}"])


# --- telemetry -----------------------------------------------------------------------------------

def prefix_of(daemon):
    argv = daemon.proc.argv
    return argv[argv.index("--file-prefix") + 1]


def ask(daemon, *commands, user=()):
    """Debian's dpdk-telemetry.py; the replies by command, without the slash and parameters as given."""
    done = subprocess.run([*user, "dpdk-telemetry.py", "-f", prefix_of(daemon)], input="\n".join(commands) + "\nquit\n",
                          text=True, capture_output=True, timeout=60)
    replies = {}
    for text in re.findall(r"^(?:--> )*(\{.*\})$", done.stdout, re.M):
        replies.update(json.loads(text))
    assert replies, done.stdout + done.stderr
    return replies


def at_rest(daemon, ask_it):
    """ask_it()'s result and the daemon's statistics of the same moment. Frames still come after the traffic: the daemon
    asks for neighbours."""
    def look():
        before = daemon.show("stats")["stats"], daemon.show("drops")["drops"]
        got = ask_it()
        return (got, *before) if before == (daemon.show("stats")["stats"], daemon.show("drops")["drops"]) else None
    return lib.until("the counters rest", look)


def telemetry(link):
    daemon = link.a.daemon
    with lib.case("dpdk-telemetry.py finds the commands"):
        commands = ask(daemon, "/")["/"]
        wanted = {"/uroce/" + name for name in ("list", "device", "port", "stats", "drops", "qps", "qp", "workers", "worker")}
        assert wanted <= set(commands), wanted - set(commands)
        assert "/ethdev/stats" in commands
    with lib.case("lists: devices and workers"):
        assert ask(daemon, "/uroce/list")["/uroce/list"] == ["uroce0", "uroce1"]
        assert ask(daemon, "/uroce/workers")["/uroce/workers"] == [0, 1]
        assert ask(daemon, "/uroce/qps")["/uroce/qps"] in ([], None, {})
    with lib.case("a port has its names, GIDs and P_Keys"):
        port = ask(daemon, "/uroce/port,uroce1")["/uroce/port"]
        assert port["port"] == "net_ring_pairb" and port["link"] == "up" and port["pkeys_0_pkey"] == "0xffff", port
        assert ask(daemon, "/uroce/device,uroce0")["/uroce/device"]["clients"] == 0
    with lib.case("counters equal those of urocectl, in total and by worker"):
        (told, of_worker, told_drops, worker), stats, drops = at_rest(daemon, lambda: [
            ask(daemon, f"/uroce/{what}")[f"/uroce/{what.split(',')[0]}"]
            for what in ("stats,uroce0", "stats,uroce0,1", "drops,uroce1", "worker,0")])
        assert told == stats[0]["total"] and of_worker == stats[0]["workers"][1], (told, of_worker, stats)
        assert told["rx_roce"] > 100, told
        assert told_drops == drops[1]["total"], (told_drops, drops)
        assert worker["rx_frames"] == sum(d["workers"][0]["rx_frames"] for d in stats), (worker, stats)
    with lib.case("a queue pair, in detail"):
        port = lib.tcp_port()
        server = link.a.spawn([lib.RCDATA, "-d", "uroce0", "-p", str(port)])
        lib.until("the server listens", lambda: server.listens(port))
        client = link.b.spawn([lib.RCDATA, "-d", "uroce1", "-p", str(port), "--qps", "2", "--ops", "100000000", "127.0.0.1"])
        lib.until("four queue pairs", lambda: len(daemon.show("qp")["qp"]) == 4)
        numbers = ask(daemon, "/uroce/qps")["/uroce/qps"]
        assert sorted(numbers) == sorted(qp["qpn"] for qp in daemon.show("qp")["qp"]), numbers
        one = ask(daemon, f"/uroce/qp,{numbers[0]}")["/uroce/qp"]
        assert one["qpn"] == numbers[0] and one["state"], one
        for wrong in (2 ** 64 - 1, 2 ** 32 + numbers[0], "1x"):
            assert not any(ask(daemon, f"/uroce/qp,{wrong}").values()), wrong
        for proc in (client, server):
            proc.kill()
        link.nothing_left()
    with lib.case("what does not exist gets no data"):
        for wrong in ("/uroce/port,uroce9", "/uroce/port", "/uroce/stats,uroce0,7", "/uroce/qp,1", "/uroce/qp", "/uroce/worker,2"):
            reply = ask(daemon, wrong)
            assert not any(reply.values()), (wrong, reply)


def telemetry_end(daemon):
    with lib.case("the daemon's end leaves no telemetry socket behind, and the folder to one that may start there now"):
        folder = pathlib.Path("/var/run/dpdk") / prefix_of(daemon)
        assert list(folder.glob("dpdk_telemetry.v2*")), "no socket while it runs"
        daemon.stop()
        assert not list(folder.iterdir())


def unprivileged():
    with lib.case("an ordinary user's daemon has telemetry and metrics, too"):
        home = lib.tmpdir()
        os.chown(home, 65534, 65534)
        pathlib.Path(home.parent).chmod(0o1777)
        program = lib.tmpdir()
        program.chmod(0o755)
        shutil.copy(lib.UROCED, program)
        user = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env", f"XDG_RUNTIME_DIR={home}")
        daemon = lib.Daemon([], ["name=uroce_lo,port=udp,addr=127.0.0.1"], lib.netns(),
                            socket=home / "uroced.sock", program=program / "uroced", before=user)
        assert ask(daemon, "/uroce/list", user=user)["/uroce/list"] == ["uroce_lo"]
        with exporter(daemon, 9464, user):
            assert "uroce_port_up" in http(daemon, "127.0.0.1", 9464)[1]
        daemon.stop()


def silent():
    with lib.case("no-telemetry opens no socket"):
        link = daemon_with("--no-telemetry")
        assert not list((pathlib.Path("/var/run/dpdk") / prefix_of(link.a.daemon)).glob("dpdk_telemetry*"))
        link.stop()


# --- metrics -------------------------------------------------------------------------------------

def curl(daemon, *argv):
    """Status and body, fetched by curl in the daemon's namespace."""
    code = "import http.client,socket,sys;c=http.client.HTTPConnection(sys.argv[1],int(sys.argv[2]),timeout=60);" \
           "c.request(sys.argv[3],sys.argv[4]);r=c.getresponse();print(r.status);print(r.read().decode(),end='')"
    status, body = lib.sh("/usr/bin/python3", "-c", code, *argv, ns=daemon.ns).split("\n", 1)
    return int(status), body


def http(daemon, host, port, method="GET", path="/metrics"):
    return curl(daemon, host, str(port), method, path)


def over_unix(path, request=b"GET /metrics HTTP/1.0\r\n\r\n"):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(str(path))
        sock.sendall(request)
        parts = []
        while part := sock.recv(65536):
            parts.append(part)
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    return head.decode(), body.decode()


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def sum_of(text, name, **labels):
    return sum(sample.value for family in text_string_to_metric_families(text) for sample in family.samples
               if sample.name == name and all(sample.labels.get(k) == v for k, v in labels.items()))


def dumpcap(daemon):
    """dpdk-dumpcap cannot attach, as doc/telemetry.md says, and does no harm."""
    done = subprocess.run(["dpdk-dumpcap", "-D", f"--file-prefix={prefix_of(daemon)}"], text=True, capture_output=True,
                          timeout=60, check=False)
    said = done.stdout + done.stderr
    documented = (lib.HERE.parent.parent / "doc/telemetry.md").read_text()
    for line in ("EAL: FATAL: Cannot init config", "Cause: EAL init failed: is primary process running?"):
        assert line in said and line in documented, said
    assert done.returncode != 0 and len(daemon.show("device")["device"]) == 2
    assert ask(daemon, "/uroce/list")["/uroce/list"] == ["uroce0", "uroce1"]


def metrics(link, path):
    daemon = link.a.daemon
    (head, text), rows, _ = at_rest(daemon, lambda: over_unix(path))
    with lib.case("the exporter's reply is HTTP and Prometheus' text format"):
        assert head.startswith("HTTP/1.1 200 OK") and "text/plain; version=0.0.4" in head, head
        assert int(re.search(r"Content-Length: (\d+)", head)[1]) == len(text)
        found = families(text)
        for name, family in found.items():
            assert name.startswith("uroce_") and family.documentation and family.type in ("counter", "gauge"), name
            for sample in family.samples:
                assert sample.name.endswith("_total") == (family.type == "counter"), sample
    name, tool = "promtool finds nothing wrong", promtool()
    if tool:
        with lib.case(name):
            done = subprocess.run([tool, "check", "metrics"], input=text, text=True, capture_output=True, timeout=60)
            assert done.returncode == 0 and not done.stderr.strip(), done.stderr
    else:
        lib.skip_case(name, "the package prometheus cannot be downloaded")
    with lib.case("every counter and drop reason is exported, with the values of urocectl"):
        stats = {d["device"]: d for d in rows}
        named = {"rx_frames": "port_rcv_packets", "rx_bytes": "port_rcv_bytes", "tx_frames": "port_xmit_packets",
                 "tx_bytes": "port_xmit_bytes"}
        for counter in stats["uroce0"]["total"]:
            name = f"uroce_{named.get(counter, counter)}_total"
            assert name[:-6] in families(text), name
            for device, row in stats.items():
                assert sum_of(text, name, device=device, port="1") == row["total"][counter], (name, device)
                assert sum_of(text, name, device=device, worker="1") == row["workers"][1][counter], (name, device)
        assert stats["uroce0"]["total"]["tx_bytes"] > 10000
        reasons = {s.labels["reason"] for s in families(text)["uroce_port_drops"].samples}
        assert reasons == set(daemon.show("drops")["drops"][0]["total"]), reasons
    with lib.case("ports, clients and objects"):
        assert sum_of(text, "uroce_port_up", device="uroce1") == 1 and sum_of(text, "uroce_workers") == 2
        assert sum_of(text, "uroce_clients") == 0 and sum_of(text, "uroce_objects", kind="qps") == 0
        assert sum_of(text, "uroce_objects_limit", kind="qps") == 4096
    with lib.case("wrong requests get an error"):
        assert "404" in over_unix(path, b"GET / HTTP/1.1\r\n\r\n")[0]
        assert "405" in over_unix(path, b"POST /metrics HTTP/1.1\r\n\r\n")[0]
        with contextlib.suppress(ConnectionResetError):
            assert over_unix(path, b"x" * 5000) == ("", ""), "a request that is too long got a reply"
    with lib.case("a textfile for node_exporter, as in doc/telemetry.md"):
        textfile(daemon)


def textfile(daemon):
    command = re.search(r"^\t?(urocectl metrics >.*)$", (lib.HERE.parent.parent / "doc/telemetry.md").read_text(), re.M)
    folder = lib.tmpdir()
    line = command[1].replace("urocectl", f"{lib.UROCECTL} --socket {daemon.socket}").replace(
        "/var/lib/prometheus/node-exporter", str(folder))
    subprocess.run(["sh", "-ec", line], check=True, timeout=60)
    assert [p.name for p in folder.iterdir()] == ["uroce.prom"] and families((folder / "uroce.prom").read_text())


def without_descriptors(proc, path):
    used = {int(n) for n in os.listdir(f"/proc/{proc.pid}/fd")}
    before = resource.prlimit(proc.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(proc.pid, resource.RLIMIT_NOFILE, (len(used), before[1]))
    try:
        assert used == set(range(len(used))), used
        for _ in range(3):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(60)
                sock.connect(str(path))
                assert sock.recv(1) == b""
        # One left: enough for the scraper, but not to ask the daemon.
        resource.prlimit(proc.pid, resource.RLIMIT_NOFILE, (len(used) + 1, before[1]))
        # The text of the last scrape serves for a while.
        lib.until("the exporter cannot ask", lambda: "Too many open files" in over_unix(path)[1])
        assert "503" in over_unix(path)[0]
    finally:
        resource.prlimit(proc.pid, resource.RLIMIT_NOFILE, before)
    assert "200" in over_unix(path)[0]


def without_daemon(daemon, path):
    """The exporter answers while there is no daemon, and serves the next one."""
    link = daemon_with(socket=daemon.socket)
    assert "uroce_port_up" in over_unix(path)[1]
    link.stop()


def slow(link, path, proc):
    """Many scrapers, some of which read nothing: requests of others and of clients continue."""
    with lib.case("slow scrapers and silent connections delay no other request"):
        idle = []
        for i in range(30):
            sock = socket.socket(socket.AF_UNIX)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            sock.connect(str(path))
            if i % 2:
                sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            idle.append(sock)
        assert "200" in over_unix(path)[0]
        traffic(link)
        assert "200" in over_unix(path)[0]
    with lib.case("no descriptor left: a scraper is refused at once"):
        for sock in idle:
            sock.close()
        lib.until("the exporter has closed its connections", lambda: len(os.listdir(f"/proc/{proc.pid}/fd")) <= 5)
        without_descriptors(proc, path)
    with lib.case("scrapes in parallel with traffic"):
        errors = []

        def scrape():
            for _ in range(50):
                try:
                    assert sum_of(over_unix(path)[1], "uroce_workers") == 2
                except Exception as error:  # shown below
                    errors.append(error)
        threads = [threading.Thread(target=scrape) for _ in range(2)]
        for thread in threads:
            thread.start()
        traffic(link)
        for thread in threads:
            thread.join()
        assert not errors, errors


def half_closed(daemon):
    """The reply does not fit into the socket's buffers, so it is not complete when the exporter sees the end."""
    lib.sh("sysctl", "-qw", "net.ipv4.tcp_wmem=4608 4608 4608", ns=daemon.ns)
    code = "import socket,sys,time;s=socket.socket();s.setsockopt(socket.SOL_SOCKET,socket.SO_RCVBUF,4096);" \
           "s.settimeout(60);s.connect(('127.0.0.1',9466));s.sendall(b'GET /metrics HTTP/1.0\\r\\n\\r\\n');" \
           "s.shutdown(socket.SHUT_WR);time.sleep(0.3);r=b''.join(iter(lambda:s.recv(4096),b''));" \
           "print(r.split(b'Content-Length: ')[1].split(b'\\r')[0].decode(),len(r.partition(b'\\r\\n\\r\\n')[2]))"
    with exporter(daemon, 9466):
        said, got = lib.sh("/usr/bin/python3", "-c", code, ns=daemon.ns).split()
    assert said == got and int(got) > 16384, (said, got)


def places():
    link = daemon_with()
    daemon = link.a.daemon
    with lib.case("a port number means loopback only"):
        with exporter(daemon, 9464):
            assert http(daemon, "127.0.0.1", 9464)[0] == 200
            listening = lib.sh("ss", "-Hltn", ns=daemon.ns)
            assert "127.0.0.1:9464" in listening and "0.0.0.0:9464" not in listening, listening
    with lib.case("a scraper that closes its direction early gets the whole reply"):
        half_closed(daemon)
    with lib.case("every address"):
        with exporter(daemon, "0.0.0.0:9465"):
            assert "0.0.0.0:9465" in lib.sh("ss", "-Hltn", ns=daemon.ns)
    path = lib.tmpdir() / "metrics.sock"
    with lib.case("a socket that a killed exporter left behind; the file goes with the exporter"):
        with contextlib.suppress(AssertionError), exporter(daemon, path) as proc:
            proc.kill()
        assert path.exists()
        with exporter(daemon, path):
            assert "200" in over_unix(path)[0]
        assert not path.exists()
    with lib.case("without a daemon: status 503 and the reason; the next daemon is found"):
        with exporter(daemon, path) as proc:
            link.stop()
            lib.until("status 503", lambda: "503" in over_unix(path)[0])  # the text of the last scrape serves for a while
            assert f"no daemon at {daemon.socket}" in over_unix(path)[1]
            without_daemon(daemon, path)
            assert proc.output().count("no daemon at") == 1, proc.output()
    with lib.case("wrong values of --listen are refused with the legal ones"):
        for wrong in ("0", "65536", "1.2.3:9", "localhost:9464", "[::1:9464", "x", "/" + "p" * 200):
            done = subprocess.run([lib.UROCECTL, "metrics", "--listen", wrong], text=True, capture_output=True, timeout=60)
            assert done.returncode == 2 and "PORT (1 to 65535" in done.stderr, (wrong, done.stderr)
        done = subprocess.run([lib.UROCECTL, "show", "qp", "--listen", "1"], text=True, capture_output=True, timeout=60)
        assert done.returncode == 2 and "--listen is only for metrics" in done.stderr, done.stderr
    with lib.case("uroced refuses its former option and says what to do"):
        done = subprocess.run([lib.UROCED, "--metrics", "9464"], text=True, capture_output=True, timeout=60)
        assert done.returncode == 2 and "run urocectl metrics --listen 9464" in done.stderr, done.stderr


# --- dashboard -----------------------------------------------------------------------------------

def dashboard(path):
    board = json.loads(DASHBOARD.read_text())
    text = over_unix(path)[1]
    labels = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    variables = {v["name"] for v in board["templating"]["list"]}
    queries = [(panel["title"], target) for panel in board["panels"] for target in panel["targets"]]
    texts = [(title, target["expr"], target["legendFormat"]) for title, target in queries]
    texts += [(v["name"], v["query"], "") for v in board["templating"]["list"] if v["type"] == "query"]
    with lib.case("each query of the dashboard names metrics and labels of the exporter"):
        assert len(queries) >= 20
        for title, expr, legend in texts:
            metrics = re.findall(r"\buroce_\w+", expr)
            assert metrics, (title, expr)
            for metric in metrics:
                assert metric in labels, f"{title}: no metric {metric}"
            for metric, inside in re.findall(r"(uroce_\w+)\{([^}]*)\}", expr):
                used = set(re.findall(r"(\w+)\s*(?:=~|!=|=|!~)", inside))
                assert used <= labels[metric] | ADDED, (title, metric, used)
            wanted = {w for by in re.findall(r"by \(([^)]*)\)", expr) for w in re.findall(r"\w+", by)}
            wanted |= set(re.findall(r"\{\{(\w+)\}\}", legend))
            if match := re.search(r"label_values\((\w+), (\w+)\)", expr):
                wanted.add(match[2])
            for metric in metrics:
                assert wanted <= labels[metric] | ADDED, (title, metric, wanted - labels[metric])
            used = set(re.findall(r"\$(\w+)", expr)) - {"__rate_interval"}
            assert used <= variables, (title, used - variables)
            assert ("rate(" in expr) == any(m.endswith("_total") for m in metrics), (title, expr)
    with lib.case("the dashboard's panels do not overlap and have different numbers"):
        assert len({p["id"] for p in board["panels"]}) == len(board["panels"])
        assert len({(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]}) == len(board["panels"])
    name, tool = "promtool accepts the dashboard's queries", promtool()
    if not tool:
        lib.skip_case(name, "the package prometheus cannot be downloaded")
        return
    with lib.case(name):
        rules = "groups:\n- name: g\n  rules:\n" + "".join(
            f"  - record: r:{i}\n    expr: '{expr.replace('$__rate_interval', '1m')}'\n"
            for i, (_, expr, _) in enumerate(texts) if not expr.startswith("label_values"))
        file = lib.tmpdir() / "rules.yml"
        file.write_text(rules)
        done = subprocess.run([tool, "check", "rules", file], text=True, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def main():
    lib.need_root()
    path = lib.tmpdir() / "metrics.sock"
    link = daemon_with()
    traffic(link)
    link.nothing_left()  # the daemon notices the end of a program later than its parent
    telemetry(link)
    with lib.case("dpdk-dumpcap fails as documented, and the daemon works on"):
        dumpcap(link.a.daemon)
    with exporter(link.a.daemon, path) as proc:
        metrics(link, path)
        dashboard(path)
        slow(link, path, proc)
    telemetry_end(link.a.daemon)
    unprivileged()
    silent()
    places()
    lib.finish()


main()
