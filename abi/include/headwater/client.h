/* The client socket and the clients' counters; see abi/src/client.rs. */
#ifndef HEADWATER_CLIENT_H
#define HEADWATER_CLIENT_H

#include <stdint.h>

#define HW_REQUEST_MAGIC UINT32_C(0x31515748) /* "HWQ1" */
#define HW_REPLY_MAGIC UINT32_C(0x31525748)   /* "HWR1" */
#define HW_SILENCE_MS_MAX 5000

struct hw_request {
	uint32_t magic, want;
	uint64_t generation;
	uint32_t path_bytes, reserved;
	/* then the path */
};

struct hw_reply {
	uint32_t magic, status, reserved;
};

#define HW_WANT_ATTR 1u
#define HW_WANT_LISTING 2u
#define HW_WANT_LOADABLE 4u
#define HW_WANT_WHOLE 8u
#define HW_WANT_EXECUTE 16u
#define HW_WANT_PASSTHROUGH 32u
#define HW_WANT_TREE 64u
#define HW_WANT_NO_FOLLOW 128u
#define HW_WANT_DETAILS 256u
#define HW_WANT_UNAUDITED 512u

enum hw_status { HW_PENDING = 0, HW_DONE = 1, HW_FALLBACK = 2 };

#define HW_COUNTER_SLOTS 256
struct hw_counters {
	uint64_t lookups, answered, requests, fallbacks, processes, reserved[3];
};

#endif
