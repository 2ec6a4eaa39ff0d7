/* A program that puts itself into a sandbox, in the way and with the filter that its arguments name, and then opens
 * a connection that is refused. With more arguments it becomes that program instead. */
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define IS(call, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, then, otherwise)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define PROGRAM(filter) {sizeof(filter) / sizeof(*filter), filter}

static struct sock_filter open_filter[] = {ALLOW};
static struct sock_filter no_options[] = {NUMBER, IS(setsockopt, 1, 0), IS(getsockopt, 0, 1), KILL, ALLOW};
static struct sock_filter only_these[] = {
    NUMBER, IS(socket, 5, 0), IS(connect, 4, 0), IS(close, 3, 0), IS(write, 2, 0), IS(exit_group, 1, 0), KILL, ALLOW,
};

static long past_the_library(long number, long first, long second, void *third) {
    long result;
#if defined(__x86_64__)
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = first, x1 __asm__("x1") = second;
    register void *x2 __asm__("x2") = third;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    result = x0;
#endif
    return result;
}

static int enter(const char *way, const char *name) {
    struct sock_fprog all = PROGRAM(open_filter), options = PROGRAM(no_options), few = PROGRAM(only_these);
    struct sock_fprog *filter = !strcmp(name, "all") ? &all : !strcmp(name, "few") ? &few : &options;
    if (!strcmp(way, "none")) return 0;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 1;
    if (!strcmp(way, "prctl")) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter) != 0;
    if (!strcmp(way, "syscall")) return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter) != 0;
    return past_the_library(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter) != 0;
}

int main(int count, char **words) {
    if (count < 3 || enter(words[1], words[2])) return 3;
    if (count > 3) {
        execvp(words[3], words + 3);
        return 4;
    }
    struct sockaddr_in closed = {.sin_family = AF_INET, .sin_port = htons(9)};
    closed.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = socket(AF_INET, SOCK_STREAM, 0);
    int refused = connect(one, (struct sockaddr *)&closed, sizeof closed);
    close(one);
    if (one < 0 || refused == 0) return 5;
    return write(1, "done\n", 5) != 5;
}
