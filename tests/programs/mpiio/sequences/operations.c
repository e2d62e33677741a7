/* The operations by their names in a plan. */
#include "sequences.h"

#include <string.h>

static const struct {
	const char *name;
	operation *what;
} operations[] = {{"read", do_read}, {"write", do_write}, {"seek", do_seek}, {"truncate", do_truncate},
	{"size", do_size}, {"reopen", do_reopen}, {"map", do_map}, {"together", do_together}, {"inspect", do_inspect},
	{"set", do_set}, {"store", do_store}, {"copy", do_copy}, {"renew", do_renew}, {"drop", do_drop},
	{"scatter", do_scatter}, {"scatterv", do_scatterv}, {"gather", do_gather}, {"gatherv", do_gatherv},
	{"bcast", do_bcast}, {"reduce", do_reduce}, {"barrier", do_barrier}, {"alltoall", do_alltoall},
	{"message", do_message}, {"begin", do_begin}, {"finish", do_finish}, {"collect", do_collect}, {"ring", do_ring},
	{"wrong", do_wrong}, {"cancel", do_cancel}};

operation *operation_named(const char *name)
{
	for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
		if (!strcmp(operations[i].name, name))
			return operations[i].what;
	return NULL;
}
