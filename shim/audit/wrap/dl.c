/* Original paths of objects in what the loader and the kernel report.
 *
 * dlopen itself is not interposed: it finds its caller by the return address, and all that matters happens in
 * la_objsearch and la_objopen. dladdr and dl_iterate_phdr show the link maps' names, which are the originals'. */
#include "wrap.h"

#include <dlfcn.h>
#include <elf.h>

#include "headwater/calls.h"
#include "sys.h"

static int stripped_search(int result, Dl_serinfo *info)
{
	for (unsigned i = 0; result == 0 && i < info->dls_cnt; i++)
		hwa_strip_in_place(info->dls_serpath[i].dls_name);
	return result;
}

WRAP(int, dlinfo, (void *handle, int request, void *out), (handle, request, out))
{
	if (request == RTLD_DI_ORIGIN && hwa_attached() && hwa_original_origin(handle, out))
		return 0;
	if (request == RTLD_DI_SERINFO && hwa_attached())
		return stripped_search(REAL(dlinfo)(handle, request, out), out);
	return REAL(dlinfo)(handle, request, out);
}

/* Has no parameters, so WRAP doesn't fit. */
#define DLERROR_ENTRY(slot) \
	char *hwa_entry##slot##_dlerror(void); \
	char *hwa_entry##slot##_dlerror(void) \
	{ \
		return impl_dlerror(&hwa_namespaces[slot]); \
	}
static char *impl_dlerror(struct hwa_namespace *ns);
DLERROR_ENTRY(0)
DLERROR_ENTRY(1)
DLERROR_ENTRY(2)
DLERROR_ENTRY(3)

/* Removes a prefix of paths from a text. */
static void take_out(char *text, const char *prefix, size_t bytes)
{
	for (char *at = text; bytes > 0 && (at = strchr(at, *prefix)); at++) {
		if (strlen(at) > bytes && memcmp(at, prefix, bytes) == 0) {
			const char *rest = hwa_after(at + bytes, HWA_NOWHERE_PREFIX);
			rest = rest ? rest : at + bytes;
			memmove(at, rest, strlen(rest) + 1);
		}
	}
}

/* The text is in memory that libc has formatted it into, so it can be changed. */
static char *impl_dlerror(struct hwa_namespace *ns)
{
	char *text = REAL(dlerror)();
	size_t bytes;
	if (text && hwa_attached()) {
		const char *prefix = hwa_store_prefix(&bytes);
		take_out(text, prefix, bytes);
		prefix = hwa_mount_point(&bytes);
		take_out(text, prefix, bytes);
	}
	return text;
}

WRAP(unsigned long, getauxval, (unsigned long type), (type))
{
	if (type == HEADWATER_AUXV)
		return (unsigned long)&hwa_calls;
	unsigned long value = REAL(getauxval)(type);
	const char *original = type == AT_EXECFN && value && hwa_attached() ? hwa_strip_store((const char *)value)
									    : NULL;
	return original ? (unsigned long)original : value;
}
