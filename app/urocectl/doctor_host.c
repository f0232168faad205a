/* SPDX-License-Identifier: BSD-3-Clause */
#include "doctor.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "ipc/sockpath.h"
#include "urocectl.h"

/* Reads the first line of a file, without its end. Returns false if there is none. */
static bool
read_line(const char *path, char *line, size_t room)
{
	FILE *f = fopen(path, "re");
	bool ok = f != NULL && fgets(line, (int)room, f) != NULL;

	if (f != NULL)
		fclose(f);
	if (ok)
		line[strcspn(line, "\n")] = '\0';
	return ok;
}

/* --- the control socket */

/*
 * Finds a process uroced, and the --socket of its command line ("": it has none). Returns its pid,
 * or 0.
 */
static int
running_daemon(char *socket, size_t room)
{
	DIR *proc = opendir("/proc");
	char path[64], words[4096];
	struct dirent *d;
	int pid = 0;

	*socket = '\0';
	while (proc != NULL && pid == 0 && (d = readdir(proc)) != NULL) {
		FILE *f;
		size_t n;

		snprintf(path, sizeof(path), "/proc/%.16s/comm", d->d_name);
		if (!isdigit((unsigned char)d->d_name[0]) ||
		    !read_line(path, words, sizeof(words)) || strcmp(words, "uroced") != 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%.16s/cmdline", d->d_name);
		f = fopen(path, "re");
		n = f != NULL ? fread(words, 1, sizeof(words) - 1, f) : 0;
		if (f != NULL)
			fclose(f);
		words[n] = '\0';
		for (char *w = words; w < words + n; w += strlen(w) + 1) {
			if (strncmp(w, "--socket=", 9) == 0)
				snprintf(socket, room, "%s", w + 9);
			else if (strcmp(w, "--socket") == 0)
				snprintf(socket, room, "%s", w + strlen(w) + 1);
		}
		pid = atoi(d->d_name);
	}
	if (proc != NULL)
		closedir(proc);
	return pid;
}

static void
no_right(struct doctor *dr, const char *path)
{
	struct stat st;
	struct group *g;

	if (stat(path, &st) < 0) {
		doctor_say(dr, VERDICT_FAULT, "socket", "",
			   "uid %u may not look into the folder of %s: `chmod a+x` that folder, or "
			   "give uroced a --socket elsewhere",
			   geteuid(), path);
		return;
	}
	g = getgrgid(st.st_gid);
	doctor_say(dr, VERDICT_FAULT, "socket", "",
		   "uid %u may not connect to %s, which has mode %04o, owner uid %u, group %s: "
		   "join that group, or start uroced with --socket-mode 0666 or --socket-group",
		   geteuid(), path, st.st_mode & 07777, st.st_uid,
		   g != NULL ? g->gr_name : "without a name");
}

void
doctor_no_daemon(struct doctor *dr, int err)
{
	const char *path = ipc_client_path(dr->rq->socket), *own = ipc_own_socket();
	char other[256];
	int pid;

	if (err == EACCES || err == EPERM) {
		no_right(dr, path);
		return;
	}
	if (err != ENOENT && err != ECONNREFUSED && err != ENOTDIR) {
		doctor_say(dr, VERDICT_FAULT, "socket", "", "%s: %s: --socket names another path",
			   path, strerror(err));
		return;
	}
	pid = running_daemon(other, sizeof(other));
	if (pid != 0 && strcmp(other, path) != 0)
		doctor_say(dr, VERDICT_FAULT, "socket", "",
			   "no daemon at %s, but uroced runs as pid %d: `urocectl --socket %s "
			   "doctor`",
			   path, pid, *other != '\0' ? other : UROCE_DEFAULT_SOCK);
	else if (err == ECONNREFUSED)
		doctor_say(dr, VERDICT_FAULT, "daemon", "",
			   "the daemon of %s has ended: start uroced again; its log says why",
			   path);
	else
		doctor_say(dr, VERDICT_FAULT, "daemon", "",
			   "no daemon at %s%s%s: start uroced, or name its socket with --socket or "
			   "UROCE_SOCKET",
			   path, own != NULL && strcmp(own, path) != 0 ? ", nor at " : "",
			   own != NULL && strcmp(own, path) != 0 ? own : "");
}

/* --- the kernel's RDMA */

/* Returns true if a device of the daemon is on this interface. */
static bool
is_ours(const json_t *ports, const char *netdev)
{
	json_t *port;
	size_t i;

	json_array_foreach(ports, i, port)
	{
		if (strcmp(row_text(port, "netdev"), netdev) == 0)
			return true;
	}
	return false;
}

/* Finds the program that holds UDP port 4791 when no uroced runs. */
static void
check_port(struct doctor *dr)
{
	static const char *const files[] = {"/proc/net/udp", "/proc/net/udp6"};
	unsigned port, uid;
	char line[512];

	if (running_daemon(line, sizeof(line)) != 0)
		return;
	for (unsigned i = 0; i < 2; i++) {
		FILE *f = fopen(files[i], "re");

		while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
			if (sscanf(line, "%*d: %*[0-9A-F]:%x %*s %*s %*s %*s %*s %u", &port,
				   &uid) != 2 ||
			    port != ROCE_UDP_PORT)
				continue;
			doctor_say(dr, VERDICT_FAULT, "kernel", "",
				   "UDP port %u is in use by a program of uid %u: `ss -ulpn sport "
				   "= %u` names it",
				   ROCE_UDP_PORT, uid, ROCE_UDP_PORT);
			fclose(f);
			return;
		}
		if (f != NULL)
			fclose(f);
	}
}

void
doctor_kernel(struct doctor *dr, const json_t *ports)
{
	DIR *dir = opendir("/sys/class/infiniband");
	char path[PATH_MAX], netdev[64], list[256] = "";
	struct dirent *d;
	size_t len = 0;
	bool held = false;

	while (dir != NULL && (d = readdir(dir)) != NULL) {
		if (d->d_name[0] == '.')
			continue;
		if (len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, " %s", d->d_name);
		/* rxe and siw have this file: the interface that they use */
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/parent", d->d_name);
		if (!read_line(path, netdev, sizeof(netdev)) ||
		    (ports != NULL && !is_ours(ports, netdev)))
			continue;
		held = true;
		doctor_say(dr, VERDICT_FAULT, "kernel", "",
			   "the kernel's %s holds UDP port %u of %s: `rdma link delete %s`, or "
			   "another interface for uroced",
			   d->d_name, ROCE_UDP_PORT, netdev, d->d_name);
	}
	if (dir != NULL)
		closedir(dir);
	if (ports == NULL && !held)
		check_port(dr);
	if (access("/run/modprobe.d/uroce.conf", F_OK) == 0 &&
	    access("/sys/module/ib_core", F_OK) == 0)
		doctor_say(dr, VERDICT_FAULT, "kernel", "",
			   "ib_core is loaded, so programs do not see the devices of `urocectl "
			   "install`: `rmmod ib_core`, or uroce-run");
	else if (!held && *list != '\0')
		doctor_say(dr, VERDICT_OK, "kernel", "",
			   "its RDMA devices are:%s; uroce-run hides them, --keep shows both",
			   list);
	else if (!held && ports != NULL)
		doctor_say(dr, VERDICT_OK, "kernel", "", "no RDMA device in it");
}

/* --- memory */

void
doctor_memory(struct doctor *dr, const json_t *daemon)
{
	bool any_user = json_is_true(json_object_get(daemon, "reads_any_user"));
	uid_t uid = (uid_t)row_int(daemon, "uid");
	char line[32], scope[32];

	if (!read_line("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope)))
		scope[0] = '\0';
	if (strcmp(scope, "3") == 0)
		doctor_say(dr, VERDICT_HINT, "memory", "",
			   "kernel.yama.ptrace_scope is 3, so memory of ordinary users' programs "
			   "with threads is copied, which is slower: set it to 1 in "
			   "/etc/sysctl.d, and restart the machine");
	else if (!any_user && uid != geteuid())
		doctor_say(dr, VERDICT_HINT, "memory", "",
			   "uroced runs as uid %u without CAP_SYS_PTRACE: memory of uid %u's "
			   "programs that it cannot map is refused (EPERM): run uroced as uid %u "
			   "or as root",
			   uid, geteuid(), geteuid());
	else if (strcmp(scope, "2") == 0 && !any_user)
		doctor_say(dr, VERDICT_HINT, "memory", "",
			   "kernel.yama.ptrace_scope is 2, so memory of programs with threads is "
			   "copied, which is slower, except in a user namespace (uroce-run "
			   "--view=namespace): `sysctl kernel.yama.ptrace_scope=1`, or run uroced "
			   "as root");
	else if (geteuid() != 0 && access("/dev/userfaultfd", R_OK | W_OK) < 0 &&
		 (!read_line("/proc/sys/vm/unprivileged_userfaultfd", line, sizeof(line)) ||
		  strcmp(line, "1") != 0))
		doctor_say(dr, VERDICT_OK, "memory", "",
			   "private memory is mapped, and a program's threads are stopped while it "
			   "registers some; not if it may open /dev/userfaultfd (doc/memory.md)");
	else
		doctor_say(dr, VERDICT_OK, "memory", "", "private memory is mapped; %s pages",
			   row_text(daemon, "pages"));
}

/* Prints a limit in bytes as a shell shows it; -1: none. */
static const char *
limit_text(long long bytes, char text[32])
{
	if (bytes < 0)
		snprintf(text, 32, "unlimited");
	else
		snprintf(text, 32, "%lld KiB", bytes / 1024);
	return text;
}

void
doctor_memlock(struct doctor *dr, const json_t *daemon)
{
	struct rlimit r = {.rlim_cur = RLIM_INFINITY};
	char daemons[32], own[32];

	getrlimit(RLIMIT_MEMLOCK, &r);
	limit_text(row_int(daemon, "memlock_bytes"), daemons);
	limit_text(r.rlim_cur == RLIM_INFINITY ? -1 : (long long)r.rlim_cur, own);
	/* A port that locks its buffers (AF_XDP, a NIC) did so when uroced started, or failed. */
	doctor_say(dr, VERDICT_OK, "memlock", "",
		   "uroced %s, this shell %s; memory that programs register is locked in no memory "
		   "mode, so neither limits it",
		   daemons, own);
}

/* --- what the rules of nft and iptables do with UDP port 4791 */

struct rules {
	bool readable;
	bool accept;               /* a rule accepts it */
	bool policy;               /* a chain for input or output drops what no rule accepts */
	bool forward;              /* the current chain sees only packets of other hosts */
	char table[64], chain[64]; /* current ones, of nft */
	char *refusing;            /* struct doctor's rule */
	size_t room;
};

/* Returns true if a port, or a range of ports, in the text contains 4791. */
static bool
names_port(const char *text)
{
	const char *p = text;
	char *end;

	while ((p = strpbrk(p, "0123456789")) != NULL) {
		long low = strtol(p, &end, 10), high = low;
		bool word = p == text || strchr(" {,:!", p[-1]) != NULL;

		/* nft writes 4000-5000, iptables 4000:5000 */
		if ((*end == '-' || *end == ':') && isdigit((unsigned char)end[1]))
			high = strtol(end + 1, &end, 10);
		if (word && (*end == '\0' || strchr(" },", *end) != NULL) && low <= ROCE_UDP_PORT &&
		    high >= ROCE_UDP_PORT)
			return true;
		p = end;
	}
	return false;
}

/* Keeps a rule that refuses the port, with what deletes it. text: of `nft -a` or iptables-save. */
static void
refuses(struct rules *r, char *text)
{
	char *handle = strstr(text, " # handle ");

	if (handle == NULL) {
		snprintf(r->refusing, r->room, "`%.120s`", text);
		return;
	}
	*handle = '\0';
	snprintf(r->refusing, r->room,
		 "table %s, chain %s: `%.120s`; `nft delete rule %s %s handle %d` deletes it",
		 r->table, r->chain, text, r->table, r->chain, atoi(handle + strlen(" # handle ")));
}

static void
rule_line(struct rules *r, char *line)
{
	char *text = line + strspn(line, " \t");
	const char *port;

	text[strcspn(text, "\n")] = '\0';
	if (sscanf(text, "table %63[^{#]", r->table) == 1) {
		r->table[strcspn(r->table, "{")] = '\0';
		while (*r->table != '\0' && r->table[strlen(r->table) - 1] == ' ')
			r->table[strlen(r->table) - 1] = '\0';
	}
	if (sscanf(text, "chain %63s", r->chain) == 1)
		r->forward = false;
	if (strstr(text, "hook forward") != NULL)
		r->forward = true;
	if (strncmp(text, ":INPUT DROP", 11) == 0 || strncmp(text, ":OUTPUT DROP", 12) == 0 ||
	    (strstr(text, "hook input") != NULL && strstr(text, "policy drop") != NULL) ||
	    (strstr(text, "hook output") != NULL && strstr(text, "policy drop") != NULL))
		r->policy = true;
	port = strstr(text, "dport"); /* also --dports of iptables' multiport */
	if (r->forward || strncmp(text, "-A FORWARD", 10) == 0 || port == NULL ||
	    strstr(text, "udp") == NULL || !names_port(port))
		return;
	if (strcasestr(port, "drop") != NULL || strcasestr(port, "reject") != NULL)
		refuses(r, text);
	else if (strcasestr(port, "accept") != NULL)
		r->accept = true;
}

/* root's PATH lacks these folders behind Debian's `su` without a dash */
#define SBIN "PATH=$PATH:/usr/sbin:/sbin; "

/* Reads what a command prints. */
static void
read_rules(struct rules *r, const char *command)
{
	char line[1024];
	FILE *f = popen(command, "re"); /* a constant */

	if (f == NULL)
		return;
	r->forward = false;
	while (fgets(line, sizeof(line), f) != NULL)
		rule_line(r, line);
	if (pclose(f) == 0)
		r->readable = true;
}

void
doctor_firewall(struct doctor *dr)
{
	struct rules r = {.refusing = dr->rule, .room = sizeof(dr->rule)};

	if (geteuid() == 0) {
		read_rules(&r, SBIN "nft -a list ruleset 2>/dev/null");
		/* names rules of iptables in its words */
		read_rules(&r, SBIN "iptables-save 2>/dev/null");
		read_rules(&r, SBIN "ip6tables-save 2>/dev/null");
	}
	dr->rules_known = r.readable;
	if (dr->rule[0] != '\0')
		doctor_say(dr, VERDICT_FAULT, "firewall", "",
			   "a rule of this host refuses UDP port %u: delete it: %s", ROCE_UDP_PORT,
			   dr->rule);
	else if (r.policy && !r.accept)
		doctor_say(dr, VERDICT_HINT, "firewall", "",
			   "this host drops what no rule accepts, and none names UDP port %u: "
			   "`iptables -I INPUT -p udp --dport %u -j ACCEPT`, or the same in nft",
			   ROCE_UDP_PORT, ROCE_UDP_PORT);
	else if (r.readable)
		doctor_say(dr, VERDICT_OK, "firewall", "",
			   "no rule of this host refuses UDP port %u", ROCE_UDP_PORT);
	else
		doctor_say(dr, VERDICT_HINT, "firewall", "",
			   "unknown: only root, with nft or iptables, can read the rules about UDP "
			   "port %u; `urocectl doctor PEER` tries it",
			   ROCE_UDP_PORT);
}
