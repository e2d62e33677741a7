/* The endpoint; see fabric.h. */
#define _GNU_SOURCE
#include "fabric.h"

#include <endian.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Prefix of an endpoint's name before its address: two ends with different prefixes can't communicate. */
#define NAME_PREFIX_BYTES 8
/* Supported modes of memory regions; a provider selects those that it needs. */
#define MR_MODES (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT)

static struct fi_info *look_up(const char *provider, int *error)
{
	struct fi_info *hints = fi_allocinfo(), *found = NULL;

	*error = -FI_ENOMEM;
	if (!hints)
		return NULL;
	hints->caps = FI_MSG | FI_SEND | FI_RECV | FI_REMOTE_COMM;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->mr_mode = MR_MODES;
	if (provider)
		hints->fabric_attr->prov_name = strdup(provider);
	*error = fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &found);
	fi_freeinfo(hints);
	return *error ? NULL : found;
}

bool hwfab_list(void)
{
	int error;
	struct fi_info *all = look_up(NULL, &error);
	const char *last = "";

	for (struct fi_info *info = all; info; info = info->next) {
		if (strcmp(info->fabric_attr->prov_name, last) != 0)
			puts(info->fabric_attr->prov_name);
		last = info->fabric_attr->prov_name;
	}
	fflush(stdout);
	return all != NULL;
}

/* Opens a queue that can be waited for together with sockets, or else one that is polled. */
static int open_queue(struct hwfab_fabric *fabric)
{
	struct fi_cq_attr attributes = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};

	fabric->wait_fd = -1;
	if (fi_cq_open(fabric->domain, &attributes, &fabric->queue, NULL) == 0) {
		if (fi_control(&fabric->queue->fid, FI_GETWAIT, &fabric->wait_fd) == 0)
			return 0;
		fi_close(&fabric->queue->fid);
		fabric->wait_fd = -1;
	}
	attributes.wait_obj = FI_WAIT_NONE;
	return fi_cq_open(fabric->domain, &attributes, &fabric->queue, NULL);
}

static int learn_name(struct hwfab_fabric *fabric)
{
	uint32_t prefix[] = {htole32(fabric->info->ep_attr->protocol), htole32(fabric->info->addr_format)};
	size_t size = HWFAB_NAME_BYTES_MAX - NAME_PREFIX_BYTES;
	int error = fi_getname(&fabric->endpoint->fid, fabric->name + NAME_PREFIX_BYTES, &size);

	memcpy(fabric->name, prefix, NAME_PREFIX_BYTES);
	fabric->name_bytes = NAME_PREFIX_BYTES + size;
	return error;
}

static void close_all(struct hwfab_fabric *fabric)
{
	struct fid *all[] = {fabric->endpoint ? &fabric->endpoint->fid : NULL,
		fabric->queue ? &fabric->queue->fid : NULL, fabric->addresses ? &fabric->addresses->fid : NULL,
		fabric->domain ? &fabric->domain->fid : NULL, fabric->fabric ? &fabric->fabric->fid : NULL};

	for (size_t number = 0; number < sizeof(all) / sizeof(all[0]); number++)
		if (all[number])
			fi_close(all[number]);
	memset(fabric, 0, sizeof(*fabric));
}

/* Opens everything up to an enabled endpoint. */
static int open_by(struct hwfab_fabric *fabric, struct fi_info *info)
{
	struct fi_av_attr addresses = {.type = info->domain_attr->av_type};
	int error;

	fabric->info = info;
	if ((error = fi_fabric(info->fabric_attr, &fabric->fabric, NULL)) != 0)
		return error;
	if ((error = fi_domain(fabric->fabric, info, &fabric->domain, NULL)) != 0)
		return error;
	if ((error = fi_av_open(fabric->domain, &addresses, &fabric->addresses, NULL)) != 0)
		return error;
	if ((error = open_queue(fabric)) != 0)
		return error;
	if ((error = fi_endpoint(fabric->domain, info, &fabric->endpoint, NULL)) != 0)
		return error;
	if ((error = fi_ep_bind(fabric->endpoint, &fabric->addresses->fid, 0)) != 0)
		return error;
	if ((error = fi_ep_bind(fabric->endpoint, &fabric->queue->fid, FI_TRANSMIT | FI_RECV)) != 0)
		return error;
	if ((error = fi_enable(fabric->endpoint)) != 0)
		return error;
	return learn_name(fabric);
}

bool hwfab_open(struct hwfab_fabric *fabric, const char *provider, char *why, size_t why_bytes)
{
	int error;
	struct fi_info *all = look_up(provider, &error);

	memset(fabric, 0, sizeof(*fabric));
	for (struct fi_info *info = all; info; info = info->next) {
		error = info->ep_attr->max_msg_size < HWFAB_SLOT_BYTES ? -FI_EMSGSIZE : open_by(fabric, info);
		if (!error)
			return true;
		close_all(fabric);
	}
	snprintf(why, why_bytes, "libfabric opens no endpoint%s%s: %s", provider ? " of provider " : "",
		provider ? provider : "", error == -FI_ENODATA ? "there is none that suits" : fi_strerror(-error));
	fi_freeinfo(all);
	return false;
}

static int make_known(struct hwfab_fabric *fabric, void *memory, size_t size, void **descriptor)
{
	struct fid_mr *region;
	int error;

	*descriptor = NULL;
	if (!(fabric->info->domain_attr->mr_mode & FI_MR_LOCAL))
		return 0;
	error = fi_mr_reg(fabric->domain, memory, size, FI_SEND | FI_RECV, 0, fabric->keys++, 0, &region, NULL);
	if (error)
		return error;
	if (fabric->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		if ((error = fi_mr_bind(region, &fabric->endpoint->fid, 0)) != 0 || (error = fi_mr_enable(region)) != 0)
			return error;
	}
	*descriptor = fi_mr_desc(region);
	return 0;
}

bool hwfab_prepare(struct hwfab_fabric *fabric, struct hwfab_slot *slots, size_t count)
{
	size_t size = count * HWFAB_SLOT_BYTES;
	unsigned char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *descriptor;

	if (memory == MAP_FAILED)
		return false;
	if (make_known(fabric, memory, size, &descriptor) != 0) {
		munmap(memory, size);
		return false;
	}
	for (size_t number = 0; number < count; number++) {
		slots[number] = (struct hwfab_slot){.bytes = memory + number * HWFAB_SLOT_BYTES};
		slots[number].descriptor = descriptor;
	}
	return true;
}

bool hwfab_find(struct hwfab_fabric *fabric, const unsigned char *name, size_t name_bytes, fi_addr_t *address)
{
	/* An address of another length would be read beyond its end. */
	if (name_bytes != fabric->name_bytes || memcmp(name, fabric->name, NAME_PREFIX_BYTES) != 0)
		return false;
	for (size_t number = 0; number < fabric->peers_count; number++) {
		if (memcmp(fabric->peers[number].name, name, name_bytes) == 0) {
			*address = fabric->peers[number].address;
			return true;
		}
	}
	if (fabric->peers_count == HWFAB_PEERS_MAX)
		return false;
	struct hwfab_peer *peer = &fabric->peers[fabric->peers_count];

	memcpy(peer->name, name, name_bytes);
	if (fi_av_insert(fabric->addresses, peer->name + NAME_PREFIX_BYTES, 1, &peer->address, 0, NULL) != 1)
		return false;
	fabric->peers_count++;
	*address = peer->address;
	return true;
}

ssize_t hwfab_receive(struct hwfab_fabric *fabric, struct hwfab_slot *slot)
{
	return fi_recv(fabric->endpoint, slot->bytes, HWFAB_SLOT_BYTES, slot->descriptor, FI_ADDR_UNSPEC,
		&slot->context);
}

ssize_t hwfab_send(struct hwfab_fabric *fabric, struct hwfab_slot *slot, fi_addr_t address)
{
	return fi_send(fabric->endpoint, slot->bytes, slot->size, slot->descriptor, address, &slot->context);
}

int hwfab_poll(struct hwfab_fabric *fabric, struct hwfab_completion *completions, int count)
{
	int number = 0;

	while (number < count) {
		struct fi_cq_msg_entry entry;
		struct fi_cq_err_entry failure = {0};
		ssize_t result = fi_cq_read(fabric->queue, &entry, 1);

		if (result == 1) {
			completions[number++] = (struct hwfab_completion){entry.op_context, entry.len, false};
			continue;
		}
		if (result == -FI_EAGAIN)
			break;
		if (result != -FI_EAVAIL || fi_cq_readerr(fabric->queue, &failure, 0) != 1)
			return -1;
		/* An error without a slot, such as a message that was longer than a posted buffer, is ignored. */
		if (failure.op_context)
			completions[number++] = (struct hwfab_completion){failure.op_context, 0, true};
	}
	return number;
}

bool hwfab_may_wait(struct hwfab_fabric *fabric)
{
	struct fid *queue = &fabric->queue->fid;

	return fi_trywait(fabric->fabric, &queue, 1) == FI_SUCCESS;
}
