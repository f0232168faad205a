/* SPDX-License-Identifier: BSD-3-Clause */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rte_common.h>
#include "node.h"

#define START_MS  60000 /* on busy cores each RCU grace period of a socket takes seconds */
#define PHASE_MS  20000
#define SETTLE_MS 10 /* from the start of a run to the start of its measurement */

/* Ends this program if a node has died or reports an error. */
static void
check_alive(struct node_pair *p)
{
	for (unsigned s = 0; s < p->sh->sides; s++) {
		int status;

		if (p->pid[s] == 0) /* not started yet */
			continue;
		if (__atomic_load_n(&p->sh->side[s].error[0], __ATOMIC_ACQUIRE) != '\0')
			bench_die("side %u: %s", s, p->sh->side[s].error);
		if (waitpid(p->pid[s], &status, WNOHANG) == p->pid[s])
			bench_die("side %u: ended with status %#x", s, status);
	}
}

/* Wait until side s has finished the current phase. */
static void
wait_reached(struct node_pair *p, unsigned s, unsigned limit_ms)
{
	uint64_t end = bench_now_ns() + limit_ms * 1000000ull;

	while (__atomic_load_n(&p->sh->side[s].steps, __ATOMIC_ACQUIRE) != p->sh->step) {
		check_alive(p);
		if (bench_now_ns() > end)
			bench_die("side %u: phase %u takes longer than %u ms", s, p->sh->phase,
				  limit_ms);
		usleep(200);
	}
}

static void
set_phase(struct node_pair *p, enum node_phase phase)
{
	__atomic_store_n(&p->sh->phase, phase, __ATOMIC_RELAXED);
	__atomic_store_n(&p->sh->step, p->sh->step + 1, __ATOMIC_RELEASE);
}

static void
set_phase_and_wait(struct node_pair *p, enum node_phase phase)
{
	set_phase(p, phase);
	for (unsigned s = 0; s < p->sh->sides; s++)
		wait_reached(p, s, phase == NODE_CONNECT ? START_MS : PHASE_MS);
}

static void
signal_both(const struct node_pair *p, int sig)
{
	for (unsigned s = 0; s < p->sh->sides; s++)
		kill(p->pid[s], sig);
}

static void
start(struct node_pair *p, int fd, unsigned s)
{
	char number[12], side[12];
	char *argv[] = {"/proc/self/exe", p->sh->role == NODE_RC ? "node" : "frames", number, side,
			NULL};

	snprintf(number, sizeof(number), "%d", fd);
	snprintf(side, sizeof(side), "%u", s);
	node_net_side(node_net_is_socket(p->sh->o.port) ? s : 0);
	p->pid[s] = bench_spawn(argv, -1, -1, SIGKILL, NULL);
	node_net_side(0);
	wait_reached(p, s, START_MS);
}

static struct node_shared *
share(const struct bench_options *o, enum node_role role, int *fd)
{
	uint32_t stride = RTE_MAX((o->size + 63) & ~63u, 64u);
	uint32_t slots = stride >= NODE_MEM_BYTES ? 1 : NODE_MEM_BYTES / stride;
	size_t bytes = sizeof(struct node_shared) + PAGE_LEAST + 2ull * slots * stride;
	struct node_shared *sh;

	*fd = memfd_create("uroce-bench", 0);
	if (*fd < 0 || ftruncate(*fd, (off_t)bytes) != 0)
		bench_die("shared memory: %m");
	sh = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, *fd, 0);
	if (sh == MAP_FAILED)
		bench_die("shared memory: %m");
	sh->o = *o;
	sh->role = role;
	sh->slots = slots;
	sh->stride = stride;
	sh->frame = 64;
	sh->bytes = bytes;
	sh->sides = node_net_sides(o);
	for (unsigned i = 0; i < 3; i++)
		sh->cpu[i] = node_net_cpu(o, i);
	sh->yields = sh->cpu[0] == sh->cpu[1] ||
		     (o->through != BENCH_THROUGH_NONE &&
		      (sh->cpu[2] == sh->cpu[0] || sh->cpu[2] == sh->cpu[1]));
	sh->link_mtu = node_net_mtu(o);
	return sh;
}

void
node_pair_open(struct node_pair *p, const struct bench_options *o, enum node_role role,
	       unsigned link)
{
	struct node_path path;
	int fd;

	*p = (struct node_pair){.sh = share(o, role, &fd)};
	p->sh->link = link;
	node_net_path(o, link, &path);
	memcpy(p->sh->device, path.node, sizeof(path.node));
	testpmd_between_open(&p->between, o, &path);
	set_phase(p, NODE_START);
	for (unsigned s = p->sh->sides; s-- > 0;)
		start(p, fd, s);
	close(fd);
	set_phase_and_wait(p, NODE_CONNECT);
	testpmd_wait_links(&p->between);
	set_phase_and_wait(p, NODE_REST);
	signal_both(p, SIGSTOP);
}

void
node_pair_close(struct node_pair *p)
{
	signal_both(p, SIGKILL);
	for (unsigned s = 0; s < p->sh->sides; s++)
		waitpid(p->pid[s], NULL, 0);
	testpmd_close(&p->between);
	munmap(p->sh, p->sh->bytes);
}

struct counts {
	double at_s;
	uint64_t done;
};

static struct counts
count(const struct node_pair *p)
{
	/* for frames alone: the side that receives, if there is one */
	const struct node_side *end = &p->sh->side[p->sh->role == NODE_FRAMES && p->sh->sides == 2];

	return (struct counts){.at_s = (double)bench_now_ns() * 1e-9,
			       .done = __atomic_load_n(&end->count, __ATOMIC_RELAXED)};
}

/* Measure distance and speed of the cores; keep the worst values so far. */
static void
probe(struct node_pair *p, struct node_pair_sample *s)
{
	const struct node_side *side = p->sh->side;

	if (p->sh->o.no_probe)
		return;
	__atomic_store_n(&p->sh->ping, 0, __ATOMIC_RELAXED);
	set_phase_and_wait(p, NODE_PROBE);
	s->distance_ns = RTE_MAX(s->distance_ns, side[0].distance_ns);
	s->speed_ns = RTE_MAX(s->speed_ns, RTE_MAX(side[0].speed_ns, side[1].speed_ns));
}

/* Wait for the last of a fixed number of messages. */
static void
wait_count(struct node_pair *p, uint64_t messages)
{
	uint64_t end = bench_now_ns() + PHASE_MS * 1000000ull;

	while (__atomic_load_n(&p->sh->side[0].count, __ATOMIC_RELAXED) < messages) {
		check_alive(p);
		if (bench_now_ns() > end)
			bench_die("%lu messages take longer than %u ms", messages, PHASE_MS);
		usleep(500);
	}
}

static void
run_once(struct node_pair *p, enum node_role role, uint32_t frame, struct node_pair_sample *s)
{
	struct counts a, b;

	p->sh->role = role;
	p->sh->frame = frame;
	signal_both(p, SIGCONT);
	*s = (struct node_pair_sample){0};
	probe(p, s);
	a = count(p);
	p->sh->until =
		role == NODE_RC && p->sh->o.count != 0 ? a.done + p->sh->o.count : UINT64_MAX;
	set_phase(p, NODE_RUN);
	if (p->sh->until != UINT64_MAX) {
		wait_count(p, p->sh->until);
	} else {
		usleep(SETTLE_MS * 1000);
		check_alive(p);
		a = count(p);
		usleep(p->sh->o.run_ms * 1000);
	}
	b = count(p);
	set_phase_and_wait(p, NODE_REST);
	s->rate = (double)(b.done - a.done) / (b.at_s - a.at_s);
	probe(p, s);
	signal_both(p, SIGSTOP);
}

void
node_pair_run(struct node_pair *p, enum node_role role, uint32_t frame, struct node_pair_sample *s)
{
	for (unsigned i = 0; i < NODE_TRIES; i++) {
		run_once(p, role, frame, s);
		if (s->rate > 0)
			return;
	}
	bench_die("nothing arrived in %u times %u ms", NODE_TRIES, p->sh->o.run_ms);
}

const char *
node_pair_far(struct bench_report *r)
{
	return bench_median(r, "distance") <= NODE_NEAR_NS ? ", near" : ", far";
}

bool
node_pair_verify(const struct node_pair *p)
{
	const struct node_shared *sh = p->sh;
	const uint8_t *a = node_region(p->sh, 0), *b = node_region(p->sh, 1);
	uint64_t n = RTE_MIN(sh->side[0].count, (uint64_t)sh->slots);

	/* connections fill places in turn: n messages fill at least so many */
	n = n < sh->slots ? sh->side[0].full : n;
	for (uint64_t i = 0; i < n; i++)
		if (memcmp(a + i * sh->stride, b + i * sh->stride, sh->o.size) != 0)
			return false;
	return n != 0;
}
