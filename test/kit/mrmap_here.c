/* SPDX-License-Identifier: BSD-3-Clause */
#include "mrmap_here.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include "map/copier.h"

struct served {
	struct copier_area *area;
	int mem;
};

static void *
serve_main(void *arg)
{
	static pthread_mutex_t atomics = PTHREAD_MUTEX_INITIALIZER;
	struct served *s = arg;

	copier_serve(s->area, s->mem, &atomics);
	copier_area_unmap(s->area);
	close(s->mem);
	free(s);
	return NULL;
}

/* Serves the copier by a thread of this process. */
static int
serve_here(void *ctx, uint64_t id, int mem, int shared)
{
	struct served *s = calloc(1, sizeof(*s));
	pthread_t t;
	int err;

	if (s == NULL)
		return -ENOMEM;
	s->mem = fcntl(mem, F_DUPFD_CLOEXEC, 0);
	s->area = s->mem >= 0 ? copier_area_map(shared) : NULL;
	err = s->area != NULL ? pthread_create(&t, NULL, serve_main, s) : errno;
	if (err == 0) {
		pthread_detach(t);
		return 0;
	}
	if (s->area != NULL)
		copier_area_unmap(s->area);
	if (s->mem >= 0)
		close(s->mem);
	free(s);
	return -err;
}

int
mrmap_create(pid_t pid, int pidfd, uid_t uid, const struct uroce_reg_mr_req *req, const int *fds,
	     unsigned nfds, struct mrmap **out)
{
	static struct copier_credit credit;
	static struct mrmap_copiers copiers = {.credit = &credit, .serve = serve_here};
	struct mrmap_client c = {.pid = pid, .pidfd = pidfd, .uid = uid, .mem.fd = -1};
	struct mrmap_found found;
	struct mrmap_files files;
	int err;

	mrmap_find(&c, req, fds, nfds, &found, &files);
	copiers.n = 0; /* shared by many clients */
	err = mrmap_make(req, &found, files.fd, NULL, &copiers, out);
	mrmap_files_close(&found, &files);
	if (c.mem.fd >= 0)
		close(c.mem.fd);
	return err;
}
