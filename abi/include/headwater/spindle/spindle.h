/* The names of Spindle's interface for programs, over <headwater.h>. A program that was written for them is compiled with
 * -I PREFIX/include/headwater/spindle, and links no library. */
#ifndef HEADWATER_SPINDLE_H
#define HEADWATER_SPINDLE_H

#include "../../headwater.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline int spindle_open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list rest;

	if (HEADWATER_CREATES_(flags)) {
		va_start(rest, flags);
		mode = va_arg(rest, mode_t);
		va_end(rest);
	}
	return headwater_open(path, flags, mode);
}

static inline int spindle_stat(const char *path, struct stat *out)
{
	return headwater_stat(path, out);
}

static inline int spindle_lstat(const char *path, struct stat *out)
{
	return headwater_lstat(path, out);
}

static inline FILE *spindle_fopen(const char *path, const char *mode)
{
	return headwater_fopen(path, mode);
}

/* Ordinary calls are intercepted from the start. Pairs of these two leave that as it is; a disable_spindle without an
 * enable_spindle before it switches interception off, where that is possible. */
static inline void enable_spindle(void)
{
	headwater_enable();
}

static inline void disable_spindle(void)
{
	headwater_disable();
}

/* Returns the count of the two, 0 if it is negative. */
static inline int is_spindle_enabled(void)
{
	long count = headwater_count_();

	return count > 0 ? (int)count : 0;
}

static inline int is_spindle_present(void)
{
	return headwater_is_served(NULL);
}

/* The same, as Spindle's library names them. */

static inline void spindle_enable(void)
{
	enable_spindle();
}

static inline void spindle_disable(void)
{
	disable_spindle();
}

static inline int spindle_is_enabled(void)
{
	return is_spindle_enabled();
}

static inline int spindle_is_present(void)
{
	return is_spindle_present();
}

#ifdef __cplusplus
}
#endif

#endif
