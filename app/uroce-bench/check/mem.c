/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <openssl/evp.h>
#include "rcdata.h"

uint64_t
random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

uint64_t
random_range(uint64_t *state, uint64_t lo, uint64_t hi)
{
	return lo + random_next(state) % (hi - lo + 1);
}

void
random_fill(void *buf, size_t len, uint64_t seed)
{
	uint8_t *p = buf;
	uint64_t word;

	for (; len >= sizeof(word); len -= sizeof(word), p += sizeof(word)) {
		word = random_next(&seed);
		memcpy(p, &word, sizeof(word));
	}
	word = random_next(&seed);
	memcpy(p, &word, len);
}

static size_t
buffer_total(size_t len)
{
	return len + 2 * GUARD_BYTES;
}

struct buffer
buffer_make(struct ibv_pd *pd, enum mem_kind kind, size_t len, int access)
{
	struct buffer buf = {.len = len, .kind = kind};
	int flags = kind == MEM_SHARED ? MAP_SHARED : MAP_PRIVATE;
	size_t total = buffer_total(len);

	if (kind == MEM_HEAP) {
		buf.base = malloc(total);
	} else {
		buf.base = mmap(NULL, total, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
		if (buf.base == MAP_FAILED)
			buf.base = NULL;
	}
	if (!buf.base)
		die("no memory for %zu bytes", total);
	memset(buf.base, GUARD_FILL, total);
	buf.addr = buf.base + GUARD_BYTES;
	buf.mr = ibv_reg_mr(pd, buf.addr, len, access);
	if (!buf.mr)
		die("ibv_reg_mr of %zu bytes, kind %d: %s", len, kind, strerror(errno));
	return buf;
}

void
buffer_free(struct buffer *buf)
{
	int rc = ibv_dereg_mr(buf->mr);

	if (rc)
		die("ibv_dereg_mr: %s", strerror(rc));
	if (buf->kind == MEM_HEAP)
		free(buf->base);
	else
		munmap(buf->base, buffer_total(buf->len));
	*buf = (struct buffer){0};
}

bool
all_guard(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != GUARD_FILL)
			return false;
	return true;
}

bool
buffer_guards_intact(const struct buffer *buf)
{
	return all_guard(buf->base, GUARD_BYTES) && all_guard(buf->addr + buf->len, GUARD_BYTES);
}

struct digest *
digest_start(void)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();

	if (!md || !EVP_DigestInit_ex(md, EVP_sha256(), NULL))
		die("no SHA-256");
	return (struct digest *)md;
}

void
digest_add(struct digest *dig, const void *buf, size_t len)
{
	if (!EVP_DigestUpdate((EVP_MD_CTX *)dig, buf, len))
		die("SHA-256 failed");
}

void
digest_end(struct digest *dig, uint8_t *sha)
{
	if (!EVP_DigestFinal_ex((EVP_MD_CTX *)dig, sha, NULL))
		die("SHA-256 failed");
	EVP_MD_CTX_free((EVP_MD_CTX *)dig);
}
