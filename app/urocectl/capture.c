/* SPDX-License-Identifier: BSD-3-Clause */
/* capture: the frames of a device, as a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "urocectl.h"

#define LEGAL    "start FILE [qpn=N], show, stop"
#define QPN_MOST 0xffffff

/* "qpn=N". */
static void
take_qpn(struct request *rq, const char *word)
{
	unsigned long n;
	char *end = NULL;

	if (strncmp(word, "qpn=", 4) != 0)
		usage_error("capture %s start: '%s' is not a filter; legal: qpn=N", rq->what, word);
	n = word[4] >= '0' && word[4] <= '9' ? strtoul(word + 4, &end, 0) : 0;
	if (end == NULL || *end != '\0' || n == 0 || n > QPN_MOST)
		usage_error("capture %s start: '%s': N is 1 to %u, see show qp", rq->what, word,
			    QPN_MOST);
	rq->capture.qpn = (uint32_t)n;
}

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	static const char *const verbs[] = {[UROCE_CAPTURE_SHOW] = "show",
					    [UROCE_CAPTURE_START] = "start",
					    [UROCE_CAPTURE_STOP] = "stop",
					    [UROCE_CAPTURE_STOP + 1] = NULL};
	struct uroce_capture_req *req = &rq->capture;

	if (nth == 0)
		take_device(rq, req->device, word);
	else if (nth == 1)
		req->flags = take_verb(rq, word, verbs, LEGAL);
	else if (nth == 2 && req->flags == UROCE_CAPTURE_START)
		rq->value = word;
	else if (nth == 3 && rq->value != NULL)
		take_qpn(rq, word);
	else
		usage_error("capture %s %s: unexpected argument '%s'", rq->what, rq->verb, word);
}

static void
check(const struct request *rq)
{
	if (rq->what == NULL)
		usage_error("capture: no device; legal: capture DEVICE start FILE [qpn=N] | show | "
			    "stop");
	if (rq->verb == NULL)
		usage_error("capture %s: nothing to do; legal: " LEGAL, rq->what);
	if (rq->capture.flags == UROCE_CAPTURE_START && (rq->value == NULL || *rq->value == '\0'))
		usage_error("capture %s start: needs FILE", rq->what);
}

static void
refused(struct ipc_client *c, const struct request *rq, int rc)
{
	const char *why = rc == -EBUSY    ? "a capture is running: stop it first"
			  : rc == -ENOENT ? "no capture is running"
			  : rc == -EINVAL ? "FILE is not a regular file"
					  : strerror(-rc);

	print_refusal(c, rq, rc);
	if (errno != 0)
		fprintf(stderr, "urocectl: capture %s: %s\n", rq->what, why);
	errno = 0;
}

/* Sends the request. Returns the answer, with the errno that ended the capture; NULL as query. */
static json_t *
ask(struct ipc_client *c, const struct request *rq, int *error)
{
	struct uroce_capture_rep rep;
	int fd = -1, rc;
	struct ipc_call call = {
		.op = UROCE_CTRL_CAPTURE,
		.req = &rq->capture,
		.req_len = sizeof(rq->capture),
		.req_fds = &fd,
		.rep = &rep,
		.rep_len = sizeof(rep),
	};

	errno = 0;
	if (rq->value != NULL) {
		/* The daemon truncates the file when it accepts the request. */
		fd = open(rq->value, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0) {
			fprintf(stderr, "urocectl: %s: %s\n", rq->value, strerror(errno));
			errno = 0;
			return NULL;
		}
		call.req_nfds = 1;
	}
	rc = ipc_client_call(c, &call);
	if (fd >= 0)
		close(fd);
	if (rc < 0) {
		refused(c, rq, rc);
		return NULL;
	}
	*error = (int)rep.error;
	return json_pack("{s:[{s:s, s:b, s:I, s:I, s:I, s:s?}]}", "capture", "device", rq->what,
			 "running", rep.running, "frames", (json_int_t)rep.frames, "bytes",
			 (json_int_t)rep.bytes, "lost", (json_int_t)rep.lost, "error",
			 rep.error != 0 ? strerror((int)rep.error) : NULL);
}

/* The exit status tells that the file could not be written. */
static int
run(struct ipc_client *c, const struct request *rq)
{
	int error = 0;
	json_t *all = ask(c, rq, &error);

	if (all == NULL)
		return -1;
	if (rq->json) {
		print_json(all);
	} else {
		table_print_record(json_array_get(json_object_get(all, "capture"), 0));
	}
	json_decref(all);
	if (error != 0)
		fprintf(stderr,
			"urocectl: capture %s: ended: %s; the file has only the frames before\n",
			rq->what, strerror(error));
	return error != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

const struct command capture_command = {"capture", "capture", take_word, check, NULL, NULL, run};
