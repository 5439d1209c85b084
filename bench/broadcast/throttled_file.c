/* A file system of one file, as slow as a client of a parallel file system: throttled_file FILE BYTES_PER_SECOND COUNTS
 *
 * Mounts itself over FILE (FUSE, in the mount namespace of the caller), serves what FILE was, and counts in the file COUNTS how many
 * bytes and operations it was asked for: "BYTES OPERATIONS". Ends with SIGTERM. Needs root. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { maxRead = 1 << 20, requestSize = maxRead + 8192 };

static const char* mountPoint;

static void stop(int number) {
    (void)number;
    umount2(mountPoint, MNT_DETACH);
    _exit(0);
}

static void fail(const char* what) {
    perror(what);
    exit(1);
}

static void answer(int fuse, uint64_t unique, int error, const void* data, size_t size) {
    struct fuse_out_header header = {.len = (uint32_t)(sizeof header + size), .error = -error, .unique = unique};
    struct iovec parts[] = {{&header, sizeof header}, {(void*)data, size}};
    if (writev(fuse, parts, size > 0 ? 2 : 1) < 0 && errno != ENOENT) {
        fail("answer");
    }
}

/* Sleeps until so many bytes may have been read since the first one; a pause gives no credit. */
static void throttle(double rate, size_t bytes) {
    static double next;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double time = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    next = (next > time ? next : time) + (double)bytes / rate;
    const double left = next - time;
    const struct timespec pause = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
    nanosleep(&pause, NULL);
}

static struct fuse_attr attributesOf(int file) {
    struct stat status;
    if (fstat(file, &status) != 0) {
        fail("fstat");
    }
    const struct fuse_attr attributes = {.ino = FUSE_ROOT_ID, .size = (uint64_t)status.st_size, .blocks = (uint64_t)status.st_blocks,
        .mtime = (uint64_t)status.st_mtime, .mtimensec = (uint32_t)status.st_mtim.tv_nsec, .mode = status.st_mode, .nlink = 1,
        .uid = status.st_uid, .gid = status.st_gid, .blksize = 4096};
    return attributes;
}

int main(int argc, char** argv) {
    static char request[requestSize], data[maxRead];
    if (argc != 4) {
        fprintf(stderr, "usage: throttled_file FILE BYTES_PER_SECOND COUNTS\n");
        return 2;
    }
    mountPoint = argv[1];
    const double rate = atof(argv[2]);
    const int file = open(mountPoint, O_RDONLY), fuse = open("/dev/fuse", O_RDWR), counts = open(argv[3], O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || fuse < 0 || counts < 0) {
        fail("open");
    }
    char options[128];
    snprintf(options, sizeof options, "fd=%d,rootmode=100000,user_id=0,group_id=0,allow_other", fuse);
    if (mount("throttled_file", mountPoint, "fuse.throttled", MS_NOSUID | MS_NODEV | MS_RDONLY, options) != 0) {
        fail("mount");
    }
    signal(SIGTERM, stop);
    unsigned long long bytes = 0, operations = 0;
    for (;;) {
        const ssize_t got = read(fuse, request, sizeof request);
        if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) {
            continue;
        }
        if (got < (ssize_t)sizeof(struct fuse_in_header)) {
            return 0; /* unmounted */
        }
        const struct fuse_in_header* in = (const struct fuse_in_header*)request;
        const void* body = request + sizeof *in;
        ++operations;
        if (in->opcode == FUSE_INIT) {
            const struct fuse_init_in* wanted = body;
            const struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = wanted->max_readahead,
                .flags = FUSE_ASYNC_READ | FUSE_MAX_PAGES, .max_write = 4096, .max_pages = maxRead / 4096};
            answer(fuse, in->unique, 0, &out, sizeof out);
        } else if (in->opcode == FUSE_GETATTR) {
            const struct fuse_attr_out out = {.attr_valid = 60, .attr = attributesOf(file)};
            answer(fuse, in->unique, 0, &out, sizeof out);
        } else if (in->opcode == FUSE_OPEN) {
            const struct fuse_open_out out = {.open_flags = FOPEN_KEEP_CACHE};
            answer(fuse, in->unique, 0, &out, sizeof out);
        } else if (in->opcode == FUSE_READ) {
            const struct fuse_read_in* wanted = body;
            const ssize_t count = pread(file, data, wanted->size < maxRead ? wanted->size : maxRead, (off_t)wanted->offset);
            throttle(rate, count > 0 ? (size_t)count : 0);
            bytes += count > 0 ? (unsigned long long)count : 0;
            answer(fuse, in->unique, count < 0 ? errno : 0, data, count > 0 ? (size_t)count : 0);
        } else if (in->opcode == FUSE_RELEASE || in->opcode == FUSE_FLUSH) {
            answer(fuse, in->unique, 0, NULL, 0);
        } else if (in->opcode != FUSE_FORGET && in->opcode != FUSE_BATCH_FORGET && in->opcode != FUSE_INTERRUPT) {
            answer(fuse, in->unique, ENOSYS, NULL, 0);
        }
        char line[64];
        const int length = snprintf(line, sizeof line, "%20llu %20llu\n", bytes, operations);
        if (pwrite(counts, line, (size_t)length, 0) != length) {
            fail("counts");
        }
    }
}
