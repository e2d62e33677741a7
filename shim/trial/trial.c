/* Tries what the C library's loader does to programs that any library audits. It is loaded twice into a program, by
 * LD_AUDIT and by LD_PRELOAD. In the program's own list of objects it calls dlmopen, in which loaders before glibc 2.35
 * crash under an auditor, unless a distribution has corrected them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

unsigned la_version(unsigned version);
unsigned la_version(unsigned version)
{
	return version;
}

unsigned la_objopen(struct link_map *object, Lmid_t list, uintptr_t *cookie);
unsigned la_objopen(struct link_map *object, Lmid_t list, uintptr_t *cookie)
{
	(void)object, (void)list, (void)cookie;
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

__attribute__((constructor)) static void begin(void)
{
	for (const struct link_map *object = _r_debug.r_map; object; object = object->l_next)
		if (object->l_ld == _DYNAMIC)
			_exit(dlmopen(LM_ID_NEWLM, object->l_name, RTLD_LAZY) ? 0 : 1);
}
