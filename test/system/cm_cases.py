# SPDX-License-Identifier: BSD-3-Clause
"""The command lines of suite cm. In them {s}, {s6} are the server's RDMA addresses, {c}, {c6} the client's, {p} is a
port, {dev} the device."""
import dataclasses
import sysconfig

PRELOAD = f"LD_PRELOAD=/usr/lib/{sysconfig.get_config_var('MULTIARCH')}/rsocket/librspreload.so"


@dataclasses.dataclass(frozen=True)
class Again:
    """A failure of a program that says nothing about the daemons."""
    line: str  # what the program that failed wrote
    topic: str  # and the counter, of either daemon, that has increased
    counter: str
    lossy: bool = False  # only while frames are lost


@dataclasses.dataclass
class Case:
    program: str
    name: str  # in words of the command line
    server: list
    client: list
    ready: object = None  # cm_run.wait_ready
    ends: bool = True  # does the server end with its client?
    clients: int = 1  # one after the other
    says: str = ""  # text that the client prints
    lossy: bool = True  # also while frames are lost
    host: bool = False  # only if the host's sockets have the device's addresses
    rcs: tuple = (0,)  # good statuses of the client
    again: tuple = ()  # Again: run up to 5 times if one of them applies
    env: dict = dataclasses.field(default_factory=dict)
    timeout: int = 300


def both(program, options, server="", client="", **kw):
    """A program that is its own server: `program options server`, `program options client`."""
    def words(side):
        return f"{program} {side} {options}".split()
    return Case(program, " ".join(f"{client} {options.replace('-p {p}', '').replace('-d {dev}', '')}".split()),
                words(server), words(client), **kw)


def rping():
    for options, kw in (("-C 20 -V -S 1000", {}), ("-C 5 -V -S 65000", {}), ("-C 20 -V -q", {}),
                        ("-C 20 -V -P", {"ends": False, "clients": 2})):
        persistent = "-P" in options
        client = options.replace(" -P", "")
        yield Case("rping", options, f"rping -s -a {{s}} -p {{p}} {options}".split(),
                   f"rping -c -a {{s}} -p {{p}} {client}".split(), lossy=not persistent, **kw)
    yield both("rping", "-C 20 -V -S 1000 -p {p} -a {s6}", "-s", "-c")
    yield both("rping", "-C 20 -V -p {p} -a {s}", "-s", "-c -I {c}", lossy=False)
    yield Case("rping", "-s to any address", "rping -s -p {p} -C 5 -V".split(),
               "rping -c -a {s} -p {p} -C 5 -V".split(), lossy=False)


def examples():
    for options, kw in (("-c 5 -C 10 -S 1000", {}), ("-c 2 -C 5 -t 32", {"lossy": False}),
                        ("-c 2 -C 5 -m", {"lossy": False}), ("-c 2 -C 5 -a 18", {"lossy": False})):
        yield both("ucmatose", f"{options} -p {{p}}", "-b {s}", "-s {s}", says="return status 0", **kw)
    yield both("ucmatose", "-c 2 -C 5 -f ipv6 -p {p}", "-b {s6}", "-s {s6}", says="return status 0", lossy=False)
    for options, kw in (("-c 5 -C 10 -S 1000", {}), ("-c 2 -C 5 -t 32", {})):
        yield both("udaddy", options, "-b {s}", "-s {s}", says="return status 0", lossy=False, **kw)
    yield both("udaddy", "-c 2 -C 5 -f ipv6", "-b {s6}", "-s {s6}", says="return status 0", lossy=False)
    yield both("cmtime", "-c 100 -p {p}", "-b {s}", "-s {s}", ends=False, says="destroy")
    yield Case("rdma_client", "-s {s}", "rdma_server -p {p}".split(),
               "rdma_client -s {s} -p {p}".split(), says="rdma_client: end 0")
    yield Case("rdma_xclient", "-s {s} -c r", "rdma_xserver -p {p} -c r".split(),
               "rdma_xclient -s {s} -p {p} -c r".split(), says="rdma_xclient: end 0")


# riostream polls its memory, so that its server may end as soon as it has the last data. If a WRITE into copied memory
# was late, its data may be there before the daemon executes it, which then finds no region. The client hangs after
# the NAK.
SEEN_EARLY = Again("", "stats", "resp_remote_access_errors", lossy=True)


def rsockets():
    for options in ("", "-T a", "-T b", "-T n", "-T v", "-T r", "-B 4096", "-i 0", "-k 1"):
        # -T a: the client treats POLLHUP (16) as an error, although the last data can still be read.
        yield both("rstream", f"-S 4000 -C 50 -I 5 {options} -p {{p}}", "-b {s}", "-s {s}",
                   lossy=options in ("", "-T b"), rcs=(0, 16) if options == "-T a" else (0,))
    yield both("rstream", "-S all -C 2 -I 1 -T v -p {p}", "-b {s}", "-s {s}", lossy=False)
    yield both("rstream", "-S 1000 -C 50 -I 5 -T v -p {p}", "-b {s6}", "-s {s6}", lossy=False)
    for options in ("-T v", "-T a", "-T b", "-T n"):
        yield both("riostream", f"-S 4000 -C 50 -I 5 {options} -p {{p}}", "-b {s}", "-s {s}", lossy=options == "-T v",
                   rcs=(0, 16) if options == "-T a" else (0,), again=(SEEN_EARLY,))


# perftest 4.5 with -R: both ends agree over TCP to connect, and only then does the server begin to listen. A client
# that is faster gets a REJ (invalid service id) or a SIDR_REP (not supported), as it would from a kernel. It is meant to
# retry ten times, 100 ms apart, but crashes during its cleanup (rdma_cm_destroy_cma).
NOBODY_LISTENS = tuple(Again(line, "cm_stats", "no_listener") for line in (
    "Event: RDMA_CM_EVENT_REJECTED; error: 8.", "Event: RDMA_CM_EVENT_UNREACHABLE; error: 1."))
# One end destroys its QP as soon as it has the other's last message. If the ACK of that one is lost, nobody sends
# another.
GONE = Again("Bad wc status 12", "stats", "retry_exceeded", lossy=True)
# The same of libfabric's: the client disconnects, which flushes the server's unacknowledged send.
GONE_FABRIC = Again("cq_readerr: Work Request Flushed Error", "stats", "req_cqe_flush_error", lossy=True)


def perftest():
    for tool in ("ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat",
                 "ib_atomic_bw", "ib_atomic_lat"):
        kinds = ("RC", "UD") if "send" in tool else ("RC",)  # (UC: librdmacm has none, perftest refuses it)
        for kind in kinds:
            size = "" if "atomic" in tool else "-s 1024" if kind == "UD" else "-s 8192"
            way = f"-c {kind}" if len(kinds) > 1 else ""
            yield both(tool, f"-R {way} {size} -n 200 -F -d {{dev}} -p {{p}}", "", "{s}", lossy=kind == "RC",
                       again=(*NOBODY_LISTENS, GONE))


# fio's client gives its server 0.5 s to post the receives of its data (send) or of its last message (write, read), and
# sets an RNR retry count of 0. It hangs after an error. The daemon also sends an RNR NAK for copied memory that is late.
NO_RECEIVE = Again("fio: cq completion status 13(RNR retry counter exceeded)", "stats", "sent_rnr_naks")


def fio():
    options = "--bs=16k --size=2m --ioengine=rdma --port={p} --thread"
    # send: the server has a receive for each of the 128 messages.
    for verb, depth, more, lossy in (("write", 4, "", True), ("read", 4, "", False), ("send", 128, "", False),
                                     ("write", 4, "--verify=crc32c", False)):
        server = f"fio --name=server {options} --iodepth={depth} --rw=read"
        client = f"fio --name=client {options} --iodepth=4 --rw=write --hostname={{s}} --verb={verb} {more}"
        yield Case("fio", f"--ioengine=rdma --verb={verb} {more}".strip(), server.split(), client.split(), lossy=lossy,
                   again=(NO_RECEIVE,), timeout=40)


def fabric():
    for provider, kind in (("verbs", "msg"), ("verbs;ofi_rxm", "rdm")):
        for size in ("64", "65536"):
            argv = ["fi_pingpong", "-p", provider, "-d", "{dev}", "-e", kind, "-c", "-I", "50", "-S", size]
            yield Case("fi_pingpong", f"-p '{provider}' -e {kind} -c -S {size}", [*argv, "-B", "{p}"],
                       [*argv, "-P", "{p}", "{s}"], ready="tcp", host=True, lossy=size == "65536",
                       again=(GONE_FABRIC,))


def qperf():
    # Without -cm 1 qperf addresses its peer by LID, without a GRH.
    for tests in ("rc_lat rc_bw rc_bi_bw", "rc_rdma_read_lat rc_rdma_write_lat rc_rdma_write_poll_lat",
                  "rc_rdma_read_bw rc_rdma_write_bw", "rc_compare_swap_mr ver_rc_compare_swap ver_rc_fetch_add"):
        yield Case("qperf", f"-cm 1 ADDR {tests}", "qperf -lp {p}".split(),
                   f"qperf -t 1 -cm 1 -lp {{p}} {{s}} {tests}".split(), ready="tcp", host=True, ends=False,
                   says=tests.split()[-1], lossy=False)


# DAPL's tests tell the client their address over a socket, and only then begin to listen.
NOT_YET = Again("dapl_cma_active: non-consumer REJ, reason=8,", "cm_stats", "no_listener")


def dapl(folder):
    """DAPL's tests: over rdma_cm, and over sockets, where the provider connects QPs by verbs."""
    (folder / "dat.conf").write_text(
        'cma u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "eth0 0" ""\n'
        'scm u2.0 nonthreadsafe default libdaploscm.so.2 dapl.2.0 "uroce0 1" ""\n')
    env = {"DAT_OVERRIDE": str(folder / "dat.conf"), "DAPL_GLOBAL_ROUTING": "1", "DAPL_GID_INDEX": "1"}
    for tool, way, options in (("dtest", "cma", "-b 4096"), ("dtest", "cma", "-b 4096 -p"),
                               ("dtest", "cma", "-b 4096 -c"), ("dtest", "scm", "-b 4096 -p"), ("dtestx", "cma", ""),
                               ("dtestsrq", "cma", "-B 10 -t 10"), ("dtestcm", "cma", "-c 200")):
        # Each prints a line when it waits for its client.
        ready = {"dtest": "Server is waiting", "dtestx": "waiting to snd addr", "dtestsrq": "server ready",
                 "dtestcm": "server waiting"}[tool]
        yield Case(tool, f"-P {way} {options}".strip(), f"{tool} -P {way} {options}".split(),
                   f"{tool} -P {way} -h {{s}} {options}".split(), ready=ready, host=True, env=env,
                   says="PASSED" if tool in ("dtest", "dtestx") else "Complete", lossy=options == "-b 4096",
                   again=(NOT_YET,))


def ucx(folder):
    env = {"UCX_TLS": "rc", "UCX_SOCKADDR_TLS_PRIORITY": "rdmacm", "UCX_NET_DEVICES": "uroce0:1"}
    for api in ("stream", "am", "tag"):
        yield Case("ucp_client_server", f"-c {api}",
                   [f"{folder}/ucp_client_server", *f"-p {{p}} -c {api}".split()],
                   [f"{folder}/ucp_client_server", *f"-a {{s}} -p {{p}} -c {api}".split()],
                   ends=False, env=env, lossy=api == "tag")
    yield Case("io_demo", "-q -o read,write", "io_demo -p {p} -q -d 1000:100000".split(),
               "io_demo -p {p} -q -o read,write -d 1000:100000 -i 200 {s}".split(), ends=False, env=env)
