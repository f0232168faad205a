/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/steps.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "parts.h"
#include "qp/table.h"

#define STEPS_MAX (1u << 18) /* 4 MiB a QP */

/* The QPs that are followed. */
static struct {
	const struct device *dev; /* NULL: none */
	struct steps *s;
} followed[STEPS_QPS];

/* Returns the entry of this QP, or with dev NULL a free one; STEPS_QPS: there is none. */
static uint32_t
find(const struct device *dev, uint32_t qpn)
{
	uint32_t i = 0;

	while (i < STEPS_QPS &&
	       (followed[i].dev != dev || (dev != NULL && steps_qpn(followed[i].s) != qpn)))
		i++;
	return i;
}

static void
end(uint32_t i)
{
	worker_steps_stop(followed[i].dev->d->workers, followed[i].s);
	free(followed[i].s);
	followed[i].dev = NULL;
}

static int
start(const struct device *dev, uint32_t qpn)
{
	const struct qp *qp = qp_table_find(&dev->d->qps, qpn);
	uint32_t i = find(dev, qpn);

	if (qp == NULL || qp->bind.port != dev->port.id)
		return ENOENT;
	if (i < STEPS_QPS)
		end(i);
	i = find(NULL, 0);
	if (i == STEPS_QPS)
		return EBUSY;
	followed[i].s = steps_create(qpn, STEPS_MAX);
	if (followed[i].s == NULL)
		return ENOMEM;
	followed[i].dev = dev;
	worker_steps_start(dev->d->workers, qp, followed[i].s);
	return 0;
}

/* Writes n bytes. Returns 0 or an errno. */
static int
write_all(int fd, const uint8_t *bytes, size_t n)
{
	while (n != 0) {
		ssize_t done = write(fd, bytes, n);

		if (done < 0 && errno != EINTR)
			return errno;
		bytes += done > 0 ? done : 0;
		n -= done > 0 ? (size_t)done : 0;
	}
	return 0;
}

static int
stop(const struct device *dev, const struct ctrl_req *req, uint32_t qpn,
     struct uroce_capture_rep *rep)
{
	uint32_t i = find(dev, qpn), n;
	const struct stamp *step;
	struct stat st;

	if (req->nfds != 1 || fstat(req->fds[0], &st) < 0 || !S_ISREG(st.st_mode))
		return EINVAL;
	if (i == STEPS_QPS)
		return ENOENT;
	worker_steps_stop(dev->d->workers, followed[i].s);
	step = steps_get(followed[i].s, &n, &rep->lost);
	rep->frames = n;
	rep->bytes = n * sizeof(*step);
	rep->error = (uint32_t)write_all(req->fds[0], (const uint8_t *)step, rep->bytes);
	end(i);
	return 0;
}

int
steps_request(struct device *dev, const struct ctrl_req *req, struct uroce_capture_rep *rep)
{
	const struct uroce_capture_req *q = req->body;

	if ((q->flags & UROCE_CAPTURE_START) != 0)
		return start(dev, q->qpn);
	return (q->flags & UROCE_CAPTURE_STOP) != 0 ? stop(dev, req, q->qpn, rep) : EINVAL;
}

void
steps_stop(const struct device *dev)
{
	for (uint32_t i = 0; i < STEPS_QPS; i++) {
		if (followed[i].dev == dev)
			end(i);
	}
}
