/* Calls of the kernel, each with arguments that would do nothing, and what becomes of them: one line each. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void show(const char* name, long result) {
    printf("%s: %s\n", name, result == -1 ? strerror(errno) : "works");
    fflush(stdout);
}

static void* thread(void* argument) {
    return argument;
}

static int child(void* argument) {
    (void)argument;
    return 0;
}

static long readMemory(void) {
    char from = 7, to = 0;
    struct iovec local = {&to, 1}, remote = {&from, 1};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
}

/* In a process of its own, which has rights in the new namespace. */
static long unshareUser(void) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        _exit(syscall(SYS_unshare, CLONE_NEWUSER) == 0 ? 0 : errno);
    }
    waitpid(child, &status, 0);
    errno = WEXITSTATUS(status);
    return errno == 0 ? 0 : -1;
}

static void blocked(void) {
    static char stack[65536];
    show("mount", syscall(SYS_mount, 0, 0, 0, 0, 0));
    show("umount2", syscall(SYS_umount2, "/nonexistent", 0));
    show("pivot_root", syscall(SYS_pivot_root, 0, 0));
    show("chroot", syscall(SYS_chroot, "/nonexistent"));
    show("setns", syscall(SYS_setns, -1, 0));
    show("bpf", syscall(SYS_bpf, -1, 0, 0));
    show("init_module", syscall(SYS_init_module, 0, 0, 0));
    show("kexec_load", syscall(SYS_kexec_load, 0, 0, 0, 0));
    show("reboot", syscall(SYS_reboot, 0, 0, 0, 0));
    show("swapon", syscall(SYS_swapon, 0, 0));
    show("syslog", syscall(SYS_syslog, 10, 0, 0));
    show("open_by_handle_at", syscall(SYS_open_by_handle_at, -1, 0, 0));
    show("userfaultfd", syscall(SYS_userfaultfd, -1));
    show("unshare new mounts", syscall(SYS_unshare, CLONE_NEWNS | CLONE_FS));
    show("unshare new network", syscall(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNET));
    show("unshare new user", unshareUser());
    show("clone new user", clone(child, stack + sizeof stack, CLONE_NEWUSER | SIGCHLD, 0));
    show("socket vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
}

static void absent(void) {
    show("clone3", syscall(435, 0, 0));
    show("io_uring_setup", syscall(425, 0, 0));
    show("a call of the future", syscall(999));
}

static void working(void) {
    pthread_t id;
    cpu_set_t cpus;
    int mode = 0;
    show("process_vm_readv", readMemory());
    show("get_mempolicy", syscall(SYS_get_mempolicy, &mode, 0, 0, 0, 0));
    show("set_mempolicy", syscall(SYS_set_mempolicy, MPOL_DEFAULT, 0, 0));
    sched_getaffinity(0, sizeof cpus, &cpus);
    show("sched_setaffinity", sched_setaffinity(0, sizeof cpus, &cpus));
    show("keyctl", syscall(SYS_keyctl, 0, -3, 1));
    show("personality", personality(0xffffffff));
    errno = pthread_create(&id, 0, thread, 0);
    show("threads", errno == 0 ? pthread_join(id, 0) : -1);
    show("shmget", shmget(IPC_PRIVATE, 0, 0) == -1 && errno == EINVAL ? 0 : -1);
    show("memfd_create", memfd_create("memory", 0));
    show("unshare files", unshare(CLONE_FILES));
    show("socket inet", socket(AF_INET, SOCK_STREAM, 0));
}

static void showFilter(void) {
    char line[256];
    FILE* status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        if (strncmp(line, "Seccomp:\t", 9) == 0) {
            printf("Seccomp: %s", line + 9);
        }
    }
}

int main(void) {
    blocked();
    absent();
    working();
    showFilter();
    return 0;
}
