/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI job that checks every byte it receives: ping-pong between all pairs of ranks, allreduce
 * and alltoall, in sizes on both sides of the eager-rendezvous threshold. test_prog_mpi compiles it
 * with Debian's mpicc. Exit status 0 and "mpi check: N ranks, M bytes compared" if all bytes are
 * right.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES (1 << 21)

static const int sizes[] = {0, 1, 7, 64, 1000, 4096, 8193, 65536, 300001, MAX_BYTES};
#define NSIZES (int)(sizeof(sizes) / sizeof(sizes[0]))

static int rank, ranks;
static long long compared;

/* The value of byte i of a message from one rank to another in a round. */
static uint8_t
expected(int from, int to, int round, int i)
{
	uint32_t x = (uint32_t)from * 2654435761u ^ (uint32_t)to * 40503u ^ (uint32_t)round << 20 ^
		     (uint32_t)i * 2246822519u;

	x ^= x >> 15;
	return (uint8_t)(x * 3266489917u >> 24);
}

static void
fill(uint8_t *buf, int from, int to, int round, int bytes)
{
	for (int i = 0; i < bytes; i++)
		buf[i] = expected(from, to, round, i);
}

static void
compare(const uint8_t *buf, int from, int to, int round, int bytes, const char *what)
{
	for (int i = 0; i < bytes; i++) {
		if (buf[i] == expected(from, to, round, i))
			continue;
		fprintf(stderr, "rank %d: %s of %d bytes from %d: byte %d is wrong\n", rank, what,
			bytes, from, i);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	compared += bytes;
}

static void
ping_pong(uint8_t *buf, int a, int b, int round, int bytes)
{
	MPI_Status st;

	if (rank == a) {
		fill(buf, a, b, round, bytes);
		MPI_Send(buf, bytes, MPI_BYTE, b, round, MPI_COMM_WORLD);
		memset(buf, 0, (size_t)bytes);
		MPI_Recv(buf, bytes, MPI_BYTE, b, round, MPI_COMM_WORLD, &st);
		compare(buf, b, a, round, bytes, "pong");
	} else if (rank == b) {
		memset(buf, 0, (size_t)bytes);
		MPI_Recv(buf, bytes, MPI_BYTE, a, round, MPI_COMM_WORLD, &st);
		compare(buf, a, b, round, bytes, "ping");
		fill(buf, b, a, round, bytes);
		MPI_Send(buf, bytes, MPI_BYTE, a, round, MPI_COMM_WORLD);
	}
}

static void
allreduce(int n)
{
	int64_t *in = malloc((size_t)n * sizeof(*in)), *out = calloc((size_t)n, sizeof(*out));

	for (int i = 0; i < n; i++)
		in[i] = (int64_t)(rank + 1) * (i + 3);
	MPI_Allreduce(in, out, n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++) {
		if (out[i] == (int64_t)ranks * (ranks + 1) / 2 * (i + 3))
			continue;
		fprintf(stderr, "rank %d: allreduce of %d: element %d is wrong\n", rank, n, i);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	compared += n * (long long)sizeof(*out);
	free(in);
	free(out);
}

static void
alltoall(int bytes, int round)
{
	uint8_t *in = malloc((size_t)bytes * (size_t)ranks + 1);
	uint8_t *out = calloc((size_t)bytes * (size_t)ranks + 1, 1);

	for (int r = 0; r < ranks; r++)
		fill(in + (size_t)r * (size_t)bytes, rank, r, round, bytes);
	MPI_Alltoall(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD);
	for (int r = 0; r < ranks; r++)
		compare(out + (size_t)r * (size_t)bytes, r, rank, round, bytes, "alltoall");
	free(in);
	free(out);
}

int
main(int argc, char **argv)
{
	uint8_t *buf = malloc(MAX_BYTES);
	long long all;
	int round = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int s = 0; s < NSIZES; s++) {
		for (int a = 0; a < ranks; a++) {
			for (int b = a + 1; b < ranks; b++)
				ping_pong(buf, a, b, ++round, sizes[s]);
		}
	}
	for (int n = 1; n <= 1 << 17; n *= 8)
		allreduce(n);
	for (int s = 0; s < NSIZES; s++)
		alltoall(sizes[s] / 4, ++round);
	MPI_Reduce(&compared, &all, 1, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("mpi check: %d ranks, %lld bytes compared\n", ranks, all);
	MPI_Finalize();
	free(buf);
	return 0;
}
