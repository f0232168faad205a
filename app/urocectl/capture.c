/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "urocectl.h"

static uint32_t
flags_of(const char *verb)
{
	if (strcmp(verb, "show") == 0)
		return UROCE_CAPTURE_SHOW;
	if (strcmp(verb, "start") == 0)
		return UROCE_CAPTURE_START;
	if (strcmp(verb, "stop") == 0)
		return UROCE_CAPTURE_STOP;
	wrong("capture: unknown '%s'; legal: start FILE, show, stop", verb);
}

void
capture_take_word(struct request *rq, unsigned nth, const char *word)
{
	struct uroce_capture_req *req = &rq->capture_req;

	if (nth == 0) {
		rq->device = word;
		if (strlen(word) >= sizeof(req->device))
			wrong("capture: device name '%s' is longer than %zu bytes", word,
			      sizeof(req->device) - 1);
		strcpy(req->device, word);
	} else if (nth == 1) {
		rq->verb = word;
		req->flags = flags_of(word);
	} else if (nth == 2 && req->flags == UROCE_CAPTURE_START) {
		rq->file = word;
	} else {
		wrong("capture %s %s: surplus argument '%s'", rq->device, rq->verb, word);
	}
}

void
capture_check(const struct request *rq)
{
	if (rq->device == NULL)
		wrong("capture: no device; legal: capture DEVICE start FILE | show | stop");
	if (rq->verb == NULL)
		wrong("capture %s: nothing to do; legal: start FILE, show, stop", rq->device);
	if (rq->capture_req.flags == UROCE_CAPTURE_START && rq->file == NULL)
		wrong("capture %s start: needs FILE", rq->device);
}

static const char *
refusal(int rc)
{
	switch (-rc) {
	case EPERM:
		return "only root and the daemon's user may";
	case ENODEV:
		return "no such device";
	case EBUSY:
		return "a capture is running: stop it first";
	case ENOENT:
		return "no capture is running";
	case EINVAL:
		return "FILE is not a regular file";
	default:
		return strerror(-rc);
	}
}

json_t *
capture_ask(struct ipc_client *c, const struct request *rq)
{
	struct uroce_capture_rep rep;
	int fd = -1, rc;
	struct ipc_call call = {
		.op = UROCE_CTRL_CAPTURE,
		.req = &rq->capture_req,
		.req_len = sizeof(rq->capture_req),
		.req_fds = &fd,
		.rep = &rep,
		.rep_len = sizeof(rep),
	};

	errno = 0;
	if (rq->file != NULL) {
		/* The daemon empties it, once nothing is in the way. */
		fd = open(rq->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0) {
			fprintf(stderr, "urocectl: %s: %s\n", rq->file, strerror(errno));
			errno = 0;
			return NULL;
		}
		call.req_nfds = 1;
	}
	rc = ipc_client_call(c, &call);
	if (fd >= 0)
		close(fd);
	if (rc < 0) {
		fprintf(stderr, "urocectl: capture %s: %s\n", rq->device, refusal(rc));
		errno = 0;
		return NULL;
	}
	return json_pack("{s:[{s:s, s:b, s:I, s:I, s:I, s:s?}]}", "capture", "device", rq->device,
			 "running", rep.running, "frames", (json_int_t)rep.frames, "bytes",
			 (json_int_t)rep.bytes, "lost", (json_int_t)rep.lost, "error",
			 rep.error != 0 ? strerror((int)rep.error) : NULL);
}
