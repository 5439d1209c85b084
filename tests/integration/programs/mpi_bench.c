/* `mpi_bench library`: each rank prints its host, the sum of all ranks, and the device and inode of its MPI library.
 * `mpi_bench latency|bandwidth|alltoall|allreduce BYTES ITERATIONS`: rank 0 prints microseconds for one operation,
 * or bytes a microsecond. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_end.h"

enum { WINDOW = 64 };

static int rank, size;

static void printLibrary(void) {
    char line[4096], host[256], device[32] = "", inode[32] = "";
    int sum;
    FILE* maps = fopen("/proc/self/maps", "r");
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    gethostname(host, sizeof host);
    while (maps && fgets(line, sizeof line, maps)) {
        if (strstr(line, "/libmpi")) {
            sscanf(line, "%*s %*s %*s %31s %31s", device, inode);
            break;
        }
    }
    printf("%d of %d on %s: sum %d, library %s %s\n", rank, size, host, sum, device, inode);
}

static void pingPong(char* buffer, int bytes) {
    if (rank == 0) {
        MPI_Send(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    }
}

static void stream(char* buffer, int bytes) {
    MPI_Request requests[WINDOW];
    MPI_Status statuses[WINDOW];
    for (int i = 0; i < WINDOW && rank < 2; ++i) {
        if (rank == 0) {
            MPI_Isend(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &requests[i]);
        } else {
            MPI_Irecv(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &requests[i]);
        }
    }
    if (rank < 2) {
        MPI_Waitall(WINDOW, requests, statuses);
    }
    if (rank == 0) {
        MPI_Recv(NULL, 0, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Send(NULL, 0, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
}

static void repeat(const char* what, char* out, char* in, int bytes, int iterations) {
    for (int i = 0; i < iterations; ++i) {
        if (strcmp(what, "latency") == 0) {
            pingPong(out, bytes);
        } else if (strcmp(what, "bandwidth") == 0) {
            stream(out, bytes);
        } else if (strcmp(what, "alltoall") == 0) {
            MPI_Alltoall(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, MPI_COMM_WORLD);
        } else {
            MPI_Allreduce(out, in, bytes / (int)sizeof(float), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        }
    }
}

static double measure(const char* what, int bytes, int iterations) {
    char* out = calloc((size_t)size, (size_t)bytes + 1);
    char* in = calloc((size_t)size, (size_t)bytes + 1);
    repeat(what, out, in, bytes, iterations / 10 + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    repeat(what, out, in, bytes, iterations);
    const double microseconds = (MPI_Wtime() - begin) * 1e6 / iterations;
    free(out);
    free(in);
    if (strcmp(what, "bandwidth") == 0) {
        return (double)bytes * WINDOW / microseconds;
    }
    return strcmp(what, "latency") == 0 ? microseconds / 2 : microseconds;
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 2) {
        printLibrary();
    }
    /* Several measurements in one run: each three words. */
    for (int i = 1; i + 2 < argc; i += 3) {
        const double result = measure(argv[i], atoi(argv[i + 1]), atoi(argv[i + 2]));
        if (rank == 0) {
            printf("%s %s %.3f\n", argv[i], argv[i + 1], result);
        }
    }
    return endMpi();
}
