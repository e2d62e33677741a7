/* Carries byte streams of a daemon to carriers of other nodes, through one endpoint. Each stream is a Unix socket
 * whose other end the daemon has. It arrives with an order (struct hwfab_order) over the control socket. It ends
 * when either end closes it, or when the network reports that the peer is unreachable. */
#ifndef HEADWATER_FABRIC_CARRIER_H
#define HEADWATER_FABRIC_CARRIER_H

#include <stdbool.h>

/* Limit of streams; further ones are closed at once. */
#define HWFAB_LINKS_MAX 128
/* The longest reason for a missing endpoint. */
#define HWFAB_WHY_BYTES_MAX 256

/* Opens an endpoint by this provider, or by the best one if it is NULL. Reports its name over the control socket
 * (`N`, a byte with the length of the provider's name, that name, the endpoint's name), or why there is none (`E`
 * and a text). Then carries streams until the control socket closes. False if the endpoint failed. */
bool hwfab_carry(int control, const char *provider);

#endif
