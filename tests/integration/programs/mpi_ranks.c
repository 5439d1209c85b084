/* What ranks on one node do with each other: messages, shared windows, and memory of other processes. Each
 * rank prints a line. */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "mpi_end.h"

enum { MAX_RANKS = 64, LARGE = 4 << 20 };

struct place {
    long pid;
    void* address;
};

static const char* sharedWindow(MPI_Comm node, int rank) {
    int size, unit, *mine, *next, seen;
    MPI_Aint bytes;
    MPI_Win window;
    MPI_Comm_size(node, &size);
    MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, node, &mine, &window);
    MPI_Win_fence(0, window);
    *mine = rank * 10;
    MPI_Win_fence(0, window);
    MPI_Win_shared_query(window, (rank + 1) % size, &bytes, &unit, &next);
    seen = *next;
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    return seen == (rank + 1) % size * 10 ? "ok" : "wrong";
}

static const char* largeMessage(const char* out, int rank, int size) {
    char* in = calloc(1, LARGE);
    const int from = (rank + size - 1) % size;
    int good = 1;
    MPI_Sendrecv(out, LARGE, MPI_CHAR, (rank + 1) % size, 0, in, LARGE, MPI_CHAR, from, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < LARGE; ++i) {
        good &= in[i] == from;
    }
    free(in);
    return good ? "ok" : "wrong";
}

static const char* memoryOfTheNextRank(char* buffer, int rank, int size) {
    struct place mine = {getpid(), buffer}, all[MAX_RANKS];
    const int next = (rank + 1) % size;
    char copy = -1;
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
    struct iovec local = {&copy, 1}, remote = {all[next].address, 1};
    const ssize_t count = process_vm_readv((pid_t)all[next].pid, &local, 1, &remote, 1, 0);
    const char* result = count == 1 ? (copy == next ? "ok" : "wrong") : strerror(errno);
    MPI_Barrier(MPI_COMM_WORLD);
    return result;
}

int main(int argc, char** argv) {
    int rank, size, sum, contribution;
    MPI_Comm node;
    char* buffer = malloc(LARGE);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    contribution = rank + 1;
    MPI_Allreduce(&contribution, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    memset(buffer, rank, LARGE);
    const char* window = sharedWindow(node, rank);
    const char* message = largeMessage(buffer, rank, size);
    const char* memory = memoryOfTheNextRank(buffer, rank, size);
    printf("rank %d of %d: sum %d, shared window %s, message %s, memory %s\n", rank, size, sum, window,
           message, memory);
    return endMpi();
}
