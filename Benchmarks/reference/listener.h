// How the servers listen. Included after the definition of `die`.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>

// Raises the limit of descriptors to what is permitted.
static inline void raise_descriptor_limit(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

// Listens on a port of loopback that the system chooses, and prints it. `flags` are those of the socket, such as SOCK_NONBLOCK.
static inline int listen_on_loopback(int flags, int backlog) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0) die("bind");
    if (listen(listener, backlog) != 0) die("listen");
    if (getsockname(listener, (struct sockaddr *)&address, &length) != 0) die("getsockname");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}
