/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ping-pong of one byte between two MPI ranks, in batches. Prints half the round trip of a batch in
 * microseconds: the shortest, the tenth of all, the median and the mean. On a loaded machine the
 * first two tell what the library costs, the others what the scheduler adds.
 *
 *   mpirun -np 2 mpi_latency [BATCHES [PINGS]]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void
ping(int rank, int pings)
{
	char byte = 0;

	for (int i = 0; i < pings; i++) {
		if (rank == 0)
			MPI_Send(&byte, 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(&byte, 1, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(&byte, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
	}
}

int
main(int argc, char **argv)
{
	int batches = argc > 1 ? atoi(argv[1]) : 200, pings = argc > 2 ? atoi(argv[2]) : 500;
	double *us = calloc((size_t)batches + 1, sizeof(*us)), sum = 0;
	int rank, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size != 2 || batches < 1 || pings < 1 || !us) {
		fprintf(stderr, "mpi_latency: two ranks, and at least one batch of one ping\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	for (int b = -5; b < batches; b++) {
		double start = MPI_Wtime();

		ping(rank, pings);
		if (b >= 0)
			sum += us[b] = (MPI_Wtime() - start) * 1e6 / (2.0 * pings);
	}
	qsort(us, (size_t)batches, sizeof(*us), by_value);
	if (rank == 0)
		printf("min %.2f p10 %.2f median %.2f mean %.2f us\n", us[0], us[batches / 10],
		       us[batches / 2], sum / batches);
	MPI_Finalize();
	free(us);
	return 0;
}
