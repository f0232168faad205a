/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rules of this host's firewall, of nft or iptables, do with UDP port 4791. */
#include "doctor.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
