/* Which files every rank of the job can open under the same name. */
#ifndef HW_MOUNTS_H
#define HW_MOUNTS_H

#include "../files/file.h"

/* Agrees with all ranks; called once, by all. */
void hw_mounts_start(void);
bool hw_mounts_is_one_node(void);
bool hw_mounts_share(const struct hw_identity *identity);

#endif
