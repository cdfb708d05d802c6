/* Stands in for every program on PATH: writes its arguments, folder, and open files to descriptor 99. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char out[65536];
static size_t used;

static void put(const char *text, size_t length) {
    if (used + length < sizeof out) {
        memcpy(out + used, text, length);
        used += length;
    }
}

int main(int argc, char **argv) {
    char link[64], path[4096];
    off_t size = lseek(99, 0, SEEK_END);
    if (size > 6000) kill(0, SIGKILL);
    for (int i = 0; i < argc; i++) put(argv[i], strlen(argv[i]) + 1);
    put("\1", 2);
    if (getcwd(path, sizeof path)) put(path, strlen(path) + 1);
    for (int fd = 0; fd < 10; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof path - 1);
        if (n > 0 && path[0] == '/' && strncmp(path, "/dev/", 5)) {
            path[n] = 0;
            put(path, n + 1);
        }
    }
    put("\2", 2);
    if (write(99, out, used) < 0) return 3;
    if (write(1, "-o p*q ;x\n", 10) < 0) return 4;
    return size / 7 % 3 == 0;
}
