/* One reliable-datagram endpoint of libfabric (FI_EP_RDM), with messages only: all providers have these, by
 * themselves or through ofi_rxm. One thread uses it. */
#ifndef HEADWATER_FABRIC_FABRIC_H
#define HEADWATER_FABRIC_FABRIC_H

#include "wire.h"

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

/* Bytes of a message with its header: large enough for few messages a chunk, small enough for many links. */
#define HWFAB_SLOT_BYTES 65536
/* Limit of known endpoints. */
#define HWFAB_PEERS_MAX 1024

/* Buffer of one message. The network owns its memory from hwfab_send or hwfab_receive until hwfab_poll returns it. */
struct hwfab_slot {
	struct fi_context2 context; /* the provider's; first, so that a completion leads to the slot */
	struct hwfab_slot *next;    /* the user's */
	void *link;                 /* the user's: the link of a sent message; NULL for a received one */
	unsigned char *bytes;
	void *descriptor;
	size_t size, offset;
};

struct hwfab_peer {
	fi_addr_t address;
	size_t name_bytes;
	unsigned char name[HWFAB_NAME_BYTES_MAX];
};

struct hwfab_fabric {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *addresses;
	struct fid_cq *queue;
	struct fid_ep *endpoint;
	int wait_fd;   /* readable when there is something to poll; -1 where the provider has none */
	uint64_t keys; /* memory regions so far */
	size_t name_bytes;
	unsigned char name[HWFAB_NAME_BYTES_MAX];
	size_t peers_count;
	struct hwfab_peer peers[HWFAB_PEERS_MAX];
};

/* The completion of a slot. */
struct hwfab_completion {
	struct hwfab_slot *slot;
	size_t size; /* of what was received */
	bool is_failed;
};

/* Opens an endpoint by this provider, or by the best one if it is NULL. On failure `why` has the reason. */
bool hwfab_open(struct hwfab_fabric *fabric, const char *provider, char *why, size_t why_bytes);

/* Allocates the slots' memory. Returns false if memory is short. */
bool hwfab_prepare(struct hwfab_fabric *fabric, struct hwfab_slot *slots, size_t count);

/* Finds the address of the endpoint with this name. Returns false if it can't be reached from this one. */
bool hwfab_find(struct hwfab_fabric *fabric, const unsigned char *name, size_t name_bytes, fi_addr_t *address);

/* Returns 0, -FI_EAGAIN to try again after hwfab_poll, or another error of libfabric. */
ssize_t hwfab_receive(struct hwfab_fabric *fabric, struct hwfab_slot *slot);
ssize_t hwfab_send(struct hwfab_fabric *fabric, struct hwfab_slot *slot, fi_addr_t address);

/* Returns how many slots have completed; -1 if the endpoint has failed for good. */
int hwfab_poll(struct hwfab_fabric *fabric, struct hwfab_completion *completions, int count);

/* Returns whether waiting for wait_fd is safe now. */
bool hwfab_may_wait(struct hwfab_fabric *fabric);

/* Writes the names of the providers that can be used to standard output, one in a line. */
bool hwfab_list(void);

#endif
