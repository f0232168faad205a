#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs a command under the restrictions of a systemd unit, without systemd: contained.py UNIT[,DROPIN].. FOLDER COMMAND..
FOLDER stands for the unit's RuntimeDirectory. Run as root. The unit's User= becomes USER below, in the groups that the
environment names in CONTAINED_GROUPS.

Not imitated: cgroups (DevicePolicy, KillMode), RestrictRealtime, RestrictSUIDSGID, ProtectHostname's namespace,
KeyringMode, limits."""
import contextlib
import ctypes
import errno
import functools
import os
import pathlib
import resource
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
SYS_MOUNT_SETATTR = 442
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 1
MS_BIND, MS_REC, MS_SLAVE, MS_NOSUID, MS_NOEXEC = 0x1000, 0x4000, 1 << 19, 2, 8
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CAP_VERSION_3 = 0x20080522
PR_SET_KEEPCAPS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 8, 47, 2
USER = 60321  # of no account
NEW_NAMESPACES = 0x7E020080  # CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET; TIME is no flag of clone
CAPS = ("chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service "
        "net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct "
        "sys_admin sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap "
        "mac_override mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore").split()
# Implied by settings of the unit, as in systemd.exec(5).
DENIED_BY = {"PrivateDevices": ["@raw-io"], "ProtectClock": ["@clock"], "ProtectKernelLogs": ["syslog"],
             "ProtectKernelModules": ["@module"], "LockPersonality": ["personality"]}


def settings(unit):
    """The [Service] section: name -> list of values, in order."""
    found, section = {}, ""
    for path in str(unit).split(","):
        for line in pathlib.Path(path).read_text().splitlines():
            if line.startswith("["):
                section = line
            elif section == "[Service]" and "=" in line and not line.startswith("#"):
                name, value = line.split("=", 1)
                found.setdefault(name, []).append(value)
    return found


def caps_of(unit, name):
    """The capabilities of a setting, as in CAPS."""
    return [cap.removeprefix("CAP_").lower() for cap in " ".join(unit.get(name, [])).split()]


def on(unit, name):
    return unit.get(name, ["no"])[-1] == "yes"


def check(rc, what):
    if rc < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source, target, kind=None, flags=0, data=None):
    check(libc.mount(*(text and str(text).encode() for text in (source, target, kind)), ctypes.c_ulong(flags),
                     data and data.encode()), f"mount {target}")


def set_writable(path, writable):
    attr = (ctypes.c_uint64 * 4)(*((0, MOUNT_ATTR_RDONLY) if writable else (MOUNT_ATTR_RDONLY, 0)), 0, 0)
    check(libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, str(path).encode(), AT_RECURSIVE, ctypes.byref(attr),
                       ctypes.sizeof(attr)), f"mount_setattr {path}")


def private_dev():
    kept = [(name, os.open(f"/dev/{name}", os.O_PATH))
            for name in ("null", "zero", "full", "random", "urandom", "tty", "shm", "hugepages", "pts")
            if os.path.exists(f"/dev/{name}")]
    mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755")
    for name, fd in kept:
        if os.path.isdir(f"/proc/self/fd/{fd}/"):
            os.mkdir(f"/dev/{name}")
        else:
            pathlib.Path(f"/dev/{name}").touch()
        mount(f"/proc/self/fd/{fd}", f"/dev/{name}", None, MS_BIND | MS_REC)
        os.close(fd)


def files(unit, folder, program):
    """The unit's view of files. Folders that hold the program under test or the daemon's files stay."""
    check(libc.unshare(CLONE_NEWNS), "unshare")
    mount("none", "/", None, MS_SLAVE | MS_REC)
    if on(unit, "PrivateDevices"):
        private_dev()
    used = os.open(folder, os.O_PATH)
    if on(unit, "PrivateTmp"):
        for tmp in ("/tmp", "/var/tmp"):
            if not os.path.realpath(program).startswith(f"{tmp}/"):
                mount("tmpfs", tmp, "tmpfs", MS_NOSUID, "mode=1777")
        os.makedirs(folder, exist_ok=True)
    mount(f"/proc/self/fd/{used}", folder, None, MS_BIND)
    os.close(used)
    if on(unit, "PrivateNetwork"):
        check(libc.unshare(CLONE_NEWNET), "unshare")
    if on(unit, "ProtectProc") or "ProtectProc" in unit:
        mount("proc", "/proc", "proc", 0, f"hidepid={unit['ProtectProc'][-1]}")
    if unit.get("ProtectSystem") == ["strict"]:
        set_writable("/", False)
        for path in ("/dev", "/proc", "/sys", folder):
            if path == folder or os.path.ismount(path):  # ismount does not see a bind mount of the same file system
                set_writable(path, True)
    if on(unit, "ProtectHome"):
        for home in ("/home", "/root", "/run/user"):
            if os.path.isdir(home) and not os.path.realpath(program).startswith(f"{home}/"):
                mount("tmpfs", home, "tmpfs", 1, "mode=0")
    if on(unit, "ProtectKernelTunables"):
        mount("/proc/sys", "/proc/sys", None, MS_BIND)
        set_writable("/proc/sys", False)
        set_writable("/sys", False)


@functools.cache
def members(name):
    """System calls of a set of systemd, as names."""
    if not name.startswith("@"):
        return frozenset((name,))
    said = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name], text=True, check=True,
                          capture_output=True).stdout
    lines = [line.strip() for line in said.splitlines()[1:]]
    return frozenset().union(*(members(line) for line in lines if line and not line.startswith("#")))


def calls_allowed(unit):
    allowed = set(members("@default"))
    for line in unit.get("SystemCallFilter", ()):
        named = set().union(*(members(word) for word in line.lstrip("~").split()))
        allowed = allowed - named if line.startswith("~") else allowed | named
    for setting, names in DENIED_BY.items():
        if on(unit, setting):
            allowed -= set().union(*(members(name) for name in names))
    return allowed


def filters(unit):
    """The seccomp filters, not yet loaded: what is not listed; what depends on arguments."""
    import seccomp
    refuse = seccomp.ERRNO(errno.EPERM)
    listed = seccomp.SyscallFilter(refuse)
    for name in calls_allowed(unit):
        try:
            listed.add_rule(seccomp.ALLOW, name)
        except RuntimeError:  # not a call of this machine
            continue
    by_args = seccomp.SyscallFilter(seccomp.ALLOW)
    families = [getattr(__import__("socket"), name, 44) for name in
                " ".join(unit.get("RestrictAddressFamilies", ())).split()]  # 44: AF_XDP, not in Python 3.11
    unlisted = sorted(set(range(max(families) + 1)) - set(families)) if families else []
    for family in unlisted:
        by_args.add_rule(seccomp.ERRNO(errno.EAFNOSUPPORT), "socket", seccomp.Arg(0, seccomp.EQ, family))
    if families:
        by_args.add_rule(seccomp.ERRNO(errno.EAFNOSUPPORT), "socket", seccomp.Arg(0, seccomp.GT, max(families)))
    if on(unit, "RestrictNamespaces"):
        by_args.add_rule(refuse, "unshare")
        by_args.add_rule(refuse, "setns")
        by_args.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
        for bit in range(32):
            if NEW_NAMESPACES >> bit & 1:
                by_args.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, 1 << bit, 1 << bit))
    if on(unit, "MemoryDenyWriteExecute"):
        by_args.add_rule(refuse, "mmap", seccomp.Arg(2, seccomp.MASKED_EQ, 6, 6))
        by_args.add_rule(refuse, "mprotect", seccomp.Arg(2, seccomp.MASKED_EQ, 4, 4))
        by_args.add_rule(refuse, "pkey_mprotect", seccomp.Arg(2, seccomp.MASKED_EQ, 4, 4))
    return listed, by_args


def bound(kept, ambient, user):
    """Drops every capability that is not in kept, from all sets, and becomes user, who keeps those in ambient. None: root."""
    mask = sum(1 << CAPS.index(name) for name in kept)
    for number in range(len(CAPS)):
        if not mask >> number & 1:
            check(libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0), "capbset_drop")
    inherited = 0
    if user is not None:
        mask = inherited = sum(1 << CAPS.index(name) for name in ambient)
        check(libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), "keepcaps")
        os.setgroups([int(group) for group in os.environ.get("CONTAINED_GROUPS", "").split()])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header = (ctypes.c_uint32 * 2)(CAP_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)(mask & 0xFFFFFFFF, mask & 0xFFFFFFFF, inherited & 0xFFFFFFFF, mask >> 32, mask >> 32,
                                 inherited >> 32)
    check(libc.capset(header, data), "capset")
    for name in ambient if user is not None else ():
        check(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAPS.index(name), 0, 0), "ambient")


def main():
    unit, folder, command = settings(sys.argv[1]), sys.argv[2], sys.argv[3:]
    loaded = filters(unit)  # the sets come from systemd-analyze: before the files change
    user = USER if unit.get("User", ["root"])[-1] != "root" else None
    files(unit, folder, command[0])
    os.umask(int(unit.get("UMask", ["0022"])[-1], 8))
    os.environ["RUNTIME_DIRECTORY"] = folder
    if on(unit, "NoNewPrivileges"):
        check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if "LimitRTPRIO" in unit:
        with contextlib.suppress(ValueError):  # root of a container without SYS_RESOURCE; copying threads do without
            resource.setrlimit(resource.RLIMIT_RTPRIO, (int(unit["LimitRTPRIO"][-1]),) * 2)
    bound(caps_of(unit, "CapabilityBoundingSet"), caps_of(unit, "AmbientCapabilities"), user)
    for one in reversed(loaded):
        one.load()
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
