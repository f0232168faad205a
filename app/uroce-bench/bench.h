/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce-bench: shared by its modes. Single threaded; not used by the daemon. */
#ifndef UROCE_BENCH_H
#define UROCE_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sched.h>
#include <sys/types.h>
#include "cli/cli.h"

#define BENCH_MAX_RUNS 64
#define BENCH_MAX_ARGS 64

enum bench_op {
	BENCH_WRITE,
	BENCH_SEND,
	BENCH_READ,
	BENCH_ATOMIC,
	BENCH_OPS,
};
extern const char *const bench_op_name[BENCH_OPS + 1]; /* "write" .. */

extern const uint8_t bench_opcode[BENCH_OPS]; /* enum uroce_wr_opcode */

/* What mode "client" measures. */
enum bench_measure {
	BENCH_RATE,
	BENCH_LATENCY,
	BENCH_WAKE,
	BENCH_IDLE,
	BENCH_MEMORY,
	BENCH_MEASURES,
};
extern const char *const bench_measure_name[BENCH_MEASURES + 1]; /* "rate" .. */

enum bench_port {
	BENCH_PORT_NONE,
	BENCH_PORT_EAL, /* two ports that --allow and --vdev name; the rest is made here */
	BENCH_PORT_MEMIF,
	BENCH_PORT_VHOST,
	BENCH_PORT_AF_XDP,
	BENCH_PORT_AF_PACKET,
	BENCH_PORT_UDP,
	BENCH_PORT_PACKET,
	BENCH_PORTS,
};
extern const char *const bench_port_name[BENCH_PORTS + 1]; /* "memif" .. */

enum bench_through {
	BENCH_THROUGH_NONE,
	BENCH_THROUGH_TESTPMD,
};

#define BENCH_MAX_CPUS 4
struct bench_cpus {
	unsigned v[BENCH_MAX_CPUS], n;
};

struct bench_options {
	const char *mode;
	bool json;
	enum bench_op op;
	uint32_t size;      /* bytes of a message, 0 .. 2^23 */
	uint32_t mtu;       /* 256 512 1024 2048 4096 */
	const char *policy; /* engine: congestion policy; NULL: fixed */
	uint32_t qps;       /* connections, 1 .. 4096 */
	uint32_t depth;     /* messages in flight on each, 1 .. 4096 */
	uint32_t runs;      /* measurements of each figure, 1 .. BENCH_MAX_RUNS */
	uint64_t count;     /* messages of a run; 0: as many as fit into about 50 ms */
	bool no_probe;      /* do not measure distance and speed of the cores */
	bool no_huge;       /* use ordinary pages even if huge ones are free */
	bool sweep;         /* all sizes and operations */
	bool quiet;         /* do not report progress */

	/* mode "client" */
	enum bench_measure measure;
	uint32_t clients;    /* processes that post operations, 1 .. 64 */
	uint32_t batch;      /* messages per post, 1 .. 64; 0: a quarter of depth, but 1 .. 16 */
	bool apart;          /* the two ends of a connection in two processes */
	bool adaptive;       /* the daemon's --idle */
	double loss;         /* percent of the frames in either direction to drop; 0: none */
	const char *options; /* members that a new daemon's --dev get besides, or NULL */
	/* running daemons and their devices; NULL: start a daemon, use its first device */
	const char *socket, *dev, *peer_socket, *peer_dev;

	/* mode "connect" */
	uint32_t live; /* connections that stay open, 0 .. 20000 */
	bool no_qps;   /* these have no QPs, and no others are made */

	/* mode "scale"; qps is per worker */
	const char *workers; /* list of their numbers; NULL: powers of two, and all CPUs */
	uint32_t split;      /* percent of the connections with their ends on two workers */
	bool split_given;    /* else: as many as a random queue has */
	bool lines;          /* count cache lines that two workers write, instead of all that */

	/* mode "latency", and port, socket, dev, peer_socket, peer_dev */
	bool breakdown;         /* stamp each step */
	struct bench_cpus cpus; /* of workers and clients, or of nodes; n 0: by their number */

	/* modes "wire" and "latency" */
	enum bench_port port;
	/* mode "wire": the ports of a BENCH_PORT_EAL, two in all, joined by the user */
	struct cli_list allow, vdev;
	enum bench_through through; /* what forwards the packets */
	uint32_t link_mtu;          /* of the interface; 0: as packets of mtu need */
	uint32_t run_ms; /* time of a measurement over a port, or of "scale", 5 .. 10000 */
};

extern const struct cli_program bench_program; /* of main.c; for cli_wrong */
extern const struct cli_field bench_fields[];  /* its options */
/*
 * Checks that --cpus, if given, names n CPUs that this program may use; what: of which they are,
 * like "worker,client,client". Else prints an error and exits with 2.
 */
void bench_cpus_check(const struct bench_options *o, unsigned n, const char *what);
/* Parses argv into o. On an error: prints it and exits with 2; --help exits with 0. */
void bench_options_parse(struct bench_options *o, int argc, char **argv);

/* The values of one figure, one for each run. */
struct bench_figure {
	double run[BENCH_MAX_RUNS];
	unsigned n;
};
void bench_figure_add(struct bench_figure *f, double value);
double bench_figure_median(const struct bench_figure *f);

/* Prints "uroce-bench: .." on stderr and exits with 1. */
_Noreturn void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t bench_now_ns(void);
/*
 * Start a program on cpus (NULL: all). If in or out is not -1, it becomes standard input or output.
 * The program gets the signal dies_of when this process ends. Exits with 1 when fork fails.
 */
pid_t bench_spawn(char *const argv[], int in, int out, int dies_of, const cpu_set_t *cpus);

/* TSC cycles in nanoseconds. */
double bench_ns(uint64_t cycles);

/*
 * Start DPDK without ports on these lcores (as EAL's --lcores), with mib of memory, on huge pages
 * if enough are free and no_huge is false. If DPDK cannot use them, the program starts again with
 * the arguments plain, which have --no-huge. Exits with 1 on failure.
 */
void bench_eal_start(bool no_huge, const char *lcores, unsigned mib, char **plain);
/*
 * Start DPDK: lcores as EAL's, and device, unless NULL: a PCI address (EAL's --allow) or a vdev. On
 * ordinary pages; with a PCI device on huge pages if enough are free. Returns rte_eal_init's.
 */
int bench_eal_plain(const char *lcores, unsigned mib, const char *device);
/* Is this device a PCI address, maybe with arguments, and no vdev? */
bool bench_is_pci(const char *device);
/* Are there mib of free huge pages of 2 MiB? */
bool bench_huge_pages_free(unsigned mib);
#define BENCH_EAL_MIB 256u /* memory that most modes need */

/* Pin the calling thread to cpu. False: this is not permitted. */
bool bench_pin(unsigned cpu);
/* One-way latency of a cache line between two cores, in ns; 0 with one core only. */
double bench_core_distance(void);

/*
 * Pass a cache line back and forth between two threads or processes with 2 * turns stores to *word,
 * which starts at 0. One calls bench_pong, the other bench_ping, which returns the one-way latency
 * in ns. turns is a multiple of 100.
 */
void bench_pong(uint32_t *word, uint32_t turns);
double bench_ping(uint32_t *word, uint32_t turns);

#define BENCH_CORES 2
/*
 * ns per iteration of a loop of additions on the caller's core. It is longer while a sibling
 * thread of the core is busy, even one of another virtual machine. Takes about half a millisecond.
 */
double bench_speed_here(void);
/* The same on CPU 0 and CPU 1 at the same time; 0 for a CPU that does not exist. */
void bench_core_speed(double ns[BENCH_CORES]);

/* Results: a table on stdout as rows end, or one JSON document at the end. */
struct bench_report;
struct json_t; /* of jansson */
struct bench_report *bench_report_start(const struct bench_options *o);
/*
 * Add the value of one run to a figure of the current row. The first figure after a finished row
 * starts the next row. key and unit must outlive the row, which has at most BENCH_MAX_FIGURES keys.
 */
#define BENCH_MAX_FIGURES 16
void bench_add(struct bench_report *r, const char *key, const char *unit, double value);
/* The median of a figure of the current row; 0 if the row has no such figure. */
double bench_median(struct bench_report *r, const char *key);
/* Finish the current row; fmt is its name. */
void bench_report_row(struct bench_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Adds a fact about the whole run: a line of the table, and key of the JSON document. */
void bench_report_text(struct bench_report *r, const char *key, const char *text);
/*
 * The same for any value, which the report then owns. Returns whether the report is JSON; if not,
 * the caller prints it.
 */
bool bench_report_json(struct bench_report *r, const char *key, struct json_t *value);
void bench_report_end(struct bench_report *r); /* prints, frees */

/* A mode of this program: argv[1]. The last row of bench_modes has the name NULL. */
struct bench_mode {
	const char *name;
	/* Returns 0, or 1 if the received bytes differ from the sent ones. NULL: only the cores */
	int (*run)(const struct bench_options *o, struct bench_report *r);
	void (*eal)(const struct bench_options *o, char **plain); /* NULL: needs no DPDK */
	void (*check)(const struct bench_options *o); /* exits with 2; NULL: nothing to check */
};
extern const struct bench_mode bench_modes[];
/* Starts DPDK on one core. */
void bench_eal_one(const struct bench_options *o, char **plain);
/* Executes a mode; returns the exit status. */
int bench_main(int argc, char **argv);

int bench_engine(const struct bench_options *o, struct bench_report *r);
int bench_wire(const struct bench_options *o, struct bench_report *r);
int bench_client(const struct bench_options *o, struct bench_report *r);
void client_check(const struct bench_options *o);
int bench_connect(const struct bench_options *o, struct bench_report *r);

#define BENCH_CRC_HEADERS                                                                          \
	28u /* header bytes in the CRC beside the payload: BTH and RETH of a WRITE */

/* ns of a CRC, and of a copy, over len bytes of 64 KiB of cached memory. */
double bench_crc_ns(uint32_t len);
double bench_copy_ns(uint32_t len);
#endif
