// Notifications of network changes (rtnetlink(7)), which need macros that Swift cannot import.
#ifndef LAT_NETLINK_H
#define LAT_NETLINK_H

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

// Opens a socket that receives changes of links, addresses and routes. Returns -1 and sets errno on failure.
static inline int lat_netlink_open(void) {
    int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (descriptor < 0) return -1;
    struct sockaddr_nl address = {.nl_family = AF_NETLINK};
    address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
    if (bind(descriptor, (struct sockaddr *)&address, sizeof address) != 0) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

// The flags that show whether a link is enabled and has a carrier.
static const unsigned int lat_link_flags =
    IFF_UP | IFF_RUNNING | 0x10000 /* IFF_LOWER_UP; linux/if.h conflicts with net/if.h */;

#endif
